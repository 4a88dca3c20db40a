//! The Responses wire: an upstream that speaks the protocol of our clients itself.
//!
//! Nothing is stored there (`store: false`), and the whole history is sent each time.
//! Items that this upstream made go back as it made them; those of others go without what
//! only their maker understands (see [`crate::origin`]). The plan decides what is sent, as
//! for every wire.

pub(crate) mod candidates;
mod decode;
mod encode;
pub(crate) mod patch;
pub(crate) mod refusals;

pub(crate) use self::decode::RelayDecoder;
pub(crate) use self::encode::encode;

use registry::{EnumSet, RelayQuirks, RelayToolKind};

use crate::tools::ProviderToolUse;
use crate::turn::Turn;

/// See [`crate::wire::relayed_tools`].
pub(crate) fn relayed_tools(turn: &Turn<'_>, quirks: &RelayQuirks) -> EnumSet<RelayToolKind> {
    let tools = match turn.tools.provider_tools() {
        ProviderToolUse::WhereEqual | ProviderToolUse::Always => quirks.tools,
        ProviderToolUse::Never => quirks.tools.without(RelayToolKind::WebSearch),
    };
    if turn.tools.runs_mcp() {
        tools.without(RelayToolKind::Mcp)
    } else {
        tools
    }
}

/// The path of the endpoint below a provider's base URL.
pub(crate) const PATH: &str = "/responses";
