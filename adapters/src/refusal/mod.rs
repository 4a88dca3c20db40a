//! What a refusal names of the request that was sent, whatever the words around it are, and the
//! changes that could be meant. [`crate::experiments`] tries them in turn: the outcome decides.
//!
//! | module | contents |
//! |---|---|
//! | [`change`] | a change of a request, and for whom it is remembered |
//! | `words` | the names and numbers in a text |
//! | `clue` | what of the request a text names |
//! | `sent` | the parts of the request |
//! | `candidates` | the changes that a clue suggests, as far as every wire has them |
//! | `contents` | the same for tools, images and other contents |

mod candidates;
pub mod change;
mod clue;
mod contents;
mod sent;
mod words;

pub(crate) use self::candidates::{Suggestions, lower_number, shared};
pub(crate) use self::clue::{Clue, ClueStrength};
pub(crate) use self::sent::RefusedRequest;
pub(crate) use self::words::RefusalText;
