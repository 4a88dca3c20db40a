//! The four ways in which a compaction begins.

use adapters::turn::{ItemKind, Turn};
use strum::IntoStaticStr;

use crate::turn::caller::{Caller, TurnKind};

/// The kind of request that started a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(in crate::turn) enum CompactionTrigger {
    /// `POST /v1/responses/compact`, used by older Codex versions and OpenAI's own clients.
    Endpoint,
    /// The input ends with a `compaction_trigger` item. Codex sends it to a provider whose name is
    /// "OpenAI".
    #[strum(serialize = "trigger")]
    TriggerItem,
    /// The input ends with Codex's own summary prompt. The request has no tools, and the summary is
    /// expected as a message.
    #[strum(serialize = "local")]
    LocalPrompt,
    /// The turn's `context_management` sets a threshold, and the history exceeds it.
    Threshold,
}

impl CompactionTrigger {
    /// Detects every trigger except the threshold, for which the size of the request must be known.
    pub(in crate::turn) fn detect(
        at_endpoint: bool,
        caller: &Caller,
        turn: &Turn<'_>,
    ) -> Option<Self> {
        let ends_with_prompt = || {
            let last = turn.items.last();
            last.is_some_and(|item| item.kind == ItemKind::Message && item.role() == "user")
        };
        if at_endpoint {
            Some(Self::Endpoint)
        } else if turn.wants_compaction() {
            Some(Self::TriggerItem)
        } else if caller.kind == TurnKind::Compaction && ends_with_prompt() {
            Some(Self::LocalPrompt)
        } else {
            None
        }
    }

    /// The name in logs and metrics.
    pub(in crate::turn) fn name(self) -> &'static str {
        self.into()
    }
}
