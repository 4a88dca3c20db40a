//! The one engine. A request becomes a plan and an upstream request in
//! [`prepare`], takes a [`way`], [`engine`] carries it out and writes to a [`sink`], and
//! [`record`] tells log and metrics how it went. [`compact`] runs it for a summary.

mod caller;
mod compact;
mod ctx;
mod engine;
mod given;
mod kept;
mod measured;
mod prefix;
mod prepare;
mod recent;
mod record;
mod recovery;
mod respond;
mod sessions;
mod sink;
mod stream;
#[cfg(test)]
mod tests;
mod told;
mod tools;
mod way;
mod weighed;

pub use caller::{Caller, Session, TurnKind};
pub use ctx::{Clock, Ctx, Random, Surrounding, Surroundings, System};
pub use given::{Given, Lesson, ProviderState};
pub use prefix::Reason as PrefixReason;
pub use respond::{Service, input_tokens, respond};
pub use told::PREFIX_HEADER;
pub use weighed::Weighed;
