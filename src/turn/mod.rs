//! The one engine. A request becomes a plan and an upstream request in
//! [`prepare`], takes a [`way`], [`engine`] carries it out and writes to a [`sink`], and
//! [`record`] tells log and metrics how it went. [`compact`] runs it for a summary.

mod caller;
mod compact;
mod context;
mod engine;
mod kept;
mod measured;
mod observer;
mod outcome;
mod prefix;
mod prepare;
mod recent;
mod record;
mod recovery;
mod respond;
mod sessions;
mod sink;
mod spelling;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod told;
mod tools;
mod way;
mod weighed;

pub use caller::{Caller, Session, TurnKind};
pub(crate) use compact::stays_from;
pub use context::{TurnContext, TurnEnvironment, TurnEnvironmentFactory};
pub use observer::{TurnEvent, TurnObserver};
pub use outcome::Outcome;
pub use prefix::Reason as PrefixReason;
pub use respond::{Service, input_tokens, respond};
pub(crate) use spelling::Spelling;
pub use state::{Lesson, ProviderState, TurnState};
pub use told::PREFIX_HEADER;
pub use weighed::Weighed;
