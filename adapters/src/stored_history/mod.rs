//! The part of the history on the server that needs no I/O: which of its items are sent, and what
//! of a request is stored.
//!
//! | module | contents |
//! |---|---|
//! | `select` | the items that are sent, by the mode of the configuration |
//! | `own_items` | the items of a request, as they are stored and listed |

mod own_items;
mod select;

pub use own_items::{OwnItem, items_to_store, push_listed_item};
pub use select::{HistoryMode, select};
