//! The Responses wire: an upstream that speaks the protocol of our clients itself.
//!
//! Nothing is stored there (`store: false`), and the whole history is sent each time.
//! Items that this upstream made go back as it made them; those of others go without what
//! only their maker understands (see [`crate::origin`]). The plan decides what is sent, as
//! for every wire.

mod decode;
mod encode;
pub(crate) mod patch;
pub(crate) mod refusals;

pub(crate) use self::decode::RelayDecoder;
pub(crate) use self::encode::encode;

/// The path of the endpoint below a provider's base URL.
pub(crate) const PATH: &str = "/responses";
