//! The result of comparing a request with the previous one of its session.

use std::fmt;

use strum::{Display, IntoStaticStr};

/// A request compared with the previous one of its session. Bytes are those of the upstream body
/// without its end, which differs every time, and without cache marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::turn) struct PrefixReport {
    pub(in crate::turn) request_bytes: u64,
    /// The size of the previous one; 0 if there is none.
    pub(in crate::turn) previous_bytes: u64,
    /// The bytes that both begin with. Parameters count if they are equal; if they differ, the
    /// comparison continues after them, because a provider caches only the prompt.
    pub(in crate::turn) shared_bytes: u64,
    /// Why the shared prefix ends where it does.
    pub(in crate::turn) reason: PrefixReason,
    /// The part in which the two first differ.
    pub(in crate::turn) differs_at: Option<RequestPart>,
}

/// Why a request does not begin with the previous one of its session, or that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum PrefixReason {
    /// There is no previous request.
    First,
    /// The request begins with the whole previous one.
    NewTurn,
    /// Old tool outputs were reduced to notices.
    Epoch,
    /// The history was replaced by a summary, or the request asks for one.
    Compaction,
    /// The client sent another history.
    ClientChangedHistory,
    /// The tools differ.
    ToolsChanged,
    /// The instructions differ.
    InstructionsChanged,
    /// The prompt is the same, but parameters differ.
    ParametersChanged,
    /// The request goes to another provider or model.
    ModelChanged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
#[strum(serialize_all = "snake_case")]
pub(in crate::turn) enum RequestPart {
    Parameters,
    Tools,
    Instructions,
    /// The item of this index in the client's request.
    #[strum(to_string = "item {0}")]
    Item(u32),
}

impl PrefixReport {
    /// The shared bytes in tenths of a percent of the previous request, rounded down: 1000 is all
    /// of it.
    fn permille(&self) -> u64 {
        let part = self.shared_bytes.saturating_mul(1000);
        part.checked_div(self.previous_bytes).unwrap_or(0)
    }

    /// What the provider's prompt cache can do for the request, for people. It can hit if the
    /// request begins with the whole previous one.
    pub(in crate::turn) fn cache_sentence(&self) -> String {
        let reason = match self.reason {
            PrefixReason::First => return "no earlier request of this session".to_owned(),
            PrefixReason::NewTurn | PrefixReason::ParametersChanged => {
                return "the request continues the previous one of its session".to_owned();
            }
            PrefixReason::Epoch => "old outputs became notices",
            PrefixReason::Compaction => "history summarized",
            PrefixReason::ClientChangedHistory => "client changed the history",
            PrefixReason::ToolsChanged => "tools changed",
            PrefixReason::InstructionsChanged => "instructions changed",
            PrefixReason::ModelChanged => "model changed",
        };
        let place = self.differs_at.map(|part| format!(" at {part}"));
        let place = place.unwrap_or_default();
        format!("cache miss ({reason}{place}, {}% shared)", self.percent())
    }

    /// The shared bytes in percent of the previous request, such as `98.7`.
    pub(in crate::turn) fn percent(&self) -> String {
        let permille = self.permille();
        format!("{}.{}", permille / 10, permille % 10)
    }
}

/// The value of the response header: `shared=98.7%; reason=epoch; at=item 7`.
impl fmt::Display for PrefixReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "shared={}%; reason={}",
            self.percent(),
            self.reason.name()
        )?;
        match &self.differs_at {
            Some(part) => write!(f, "; at={part}"),
            None => Ok(()),
        }
    }
}

impl PrefixReason {
    /// The name in header, log and metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
