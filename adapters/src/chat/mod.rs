//! The Chat Completions wire: [`encode`] writes a request, `decode` reads the
//! answer.
//!
//! | module | contents |
//! |---|---|
//! | `options` | for which provider and model to encode |
//! | `parts` | content parts |
//! | `group` | the plan as a sequence of messages |
//! | `history` | writes the messages |
//! | `encode` | writes the rest of the request around them |
//! | `decode` | reads chunks and whole answers |
//! | `provider_search` | the provider's own search of the web |
//! | `reasoning_state` | what later requests need of an answer |
//! | `refusals` | the quirk patches that known refusals lead to |
//! | `candidates` | the changes that what a refusal names suggests |
//! | `patch` | what such a patch changes |
//! | `observe` | the quirks that an answer shows |
//! | `reasoning_fields` | the fields that may steer reasoning |

pub(crate) mod candidates;
pub(crate) mod decode;
pub(crate) mod encode;
mod group;
mod history;
pub(crate) mod observe;
mod options;
mod parts;
pub(crate) mod patch;
pub(crate) mod provider_search;
pub(crate) mod reasoning_fields;
pub(crate) mod reasoning_state;
pub(crate) mod refusals;

/// The path of the endpoint below a provider's base URL.
pub(crate) const PATH: &str = "/chat/completions";
