//! How much of a request its provider has seen before: what it shares with the last
//! one of its session, where it first differs, and why.
//!
//! [`print`] is what is remembered of a request, [`watch`] where.

mod print;
#[cfg(test)]
mod tests;
mod watch;

use std::fmt;

pub(super) use print::{Place, Print, Situation};
pub(super) use watch::Watch;

/// Why a request does not begin like the last one, or that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// There is no last one.
    First,
    /// All of the last one is shared.
    NewTurn,
    /// Old outputs were reduced to notices.
    Epoch,
    /// The history gives way to a summary, or is to become one.
    Compaction,
    /// The client sent another history.
    ClientChangedHistory,
    /// Other tools.
    ToolsChanged,
    /// Other instructions.
    InstructionsChanged,
    /// The same prompt with other parameters.
    ParametersChanged,
    /// Another provider or model.
    ModelChanged,
}

impl Reason {
    /// The name in header, log and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::NewTurn => "new_turn",
            Self::Epoch => "epoch",
            Self::Compaction => "compaction",
            Self::ClientChangedHistory => "client_changed_history",
            Self::ToolsChanged => "tools_changed",
            Self::InstructionsChanged => "instructions_changed",
            Self::ParametersChanged => "parameters_changed",
            Self::ModelChanged => "model_changed",
        }
    }
}

/// A request beside the last one of its session. Bytes are those of the upstream
/// body but for its end, which is another each time, and for marks of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Telling {
    /// Bytes of this request.
    pub(super) sent: u64,
    /// Bytes of the last one; 0 if there is none.
    pub(super) last: u64,
    /// Those that both begin with. Parameters count where they are equal, and do
    /// not end it where they are not: a provider's cache is of the prompt.
    pub(super) shared: u64,
    /// Why it is not more.
    pub(super) reason: Reason,
    /// Where the two differ first.
    pub(super) place: Option<Place>,
}

impl Telling {
    /// Tenths of a percent of the last request's bytes, rounded down: 1000 means
    /// all of them.
    fn permille(&self) -> u64 {
        let part = self.shared.saturating_mul(1000);
        part.checked_div(self.last).unwrap_or(0)
    }

    /// `98.7`, a percentage.
    pub(super) fn percent(&self) -> String {
        let permille = self.permille();
        format!("{}.{}", permille / 10, permille % 10)
    }
}

/// The value of the response header: `shared=98.7%; reason=epoch; at=item 7`.
impl fmt::Display for Telling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "shared={}%; reason={}",
            self.percent(),
            self.reason.name()
        )?;
        match &self.place {
            Some(place) => write!(f, "; at={place}"),
            None => Ok(()),
        }
    }
}
