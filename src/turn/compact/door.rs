//! Where a client asks for a compaction.

use adapters::turn::{ItemKind, Turn};

use crate::turn::caller::{Caller, TurnKind};

/// The doors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::turn) enum Door {
    /// `POST /v1/responses/compact`: older Codex, OpenAI's own clients.
    Endpoint,
    /// The input ends in a `compaction_trigger`: Codex with a provider of the name
    /// "OpenAI".
    Trigger,
    /// Codex asks with a prompt of its own, without tools, and wants a message.
    Local,
    /// `context_management` of a turn whose history has become too long.
    Threshold,
}

impl Door {
    /// The door of a request, where it shows before its size is known.
    pub(in crate::turn) fn of(at_endpoint: bool, caller: &Caller, turn: &Turn<'_>) -> Option<Self> {
        let asked = || {
            let last = turn.items.last();
            last.is_some_and(|item| item.kind == ItemKind::Message && item.role() == "user")
        };
        if at_endpoint {
            Some(Self::Endpoint)
        } else if turn.wants_compaction() {
            Some(Self::Trigger)
        } else if caller.kind == TurnKind::Compaction && asked() {
            Some(Self::Local)
        } else {
            None
        }
    }

    /// The name in logs and figures.
    pub(in crate::turn) fn name(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Trigger => "trigger",
            Self::Local => "local",
            Self::Threshold => "threshold",
        }
    }
}
