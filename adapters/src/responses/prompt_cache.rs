//! What a response says of the prompt it was made from, in the form of OpenAI's API: how much of
//! the prompt could be cached, and which reasoning was left out.

use serde::{Deserialize, Serialize};

use crate::baggage::Baggage;
use crate::encoded::ItemSpan;
use crate::origin;
use crate::turn::{Item, ItemKind, Turn};

/// The most reasoning items that a response lists as left out.
const MAX_TRANSFORMATIONS: usize = 100;

/// How the prompt of a response compares with that of an earlier one: `prompt_cache_diagnostics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PromptCacheDiagnostics {
    /// It begins with the whole earlier prompt.
    CacheHit,
    /// It does not.
    CacheMiss {
        /// Why.
        reason: CacheMissReason,
        /// The estimated tokens after the first difference.
        cache_missed_tokens: u64,
        /// The tokens of the earlier prompt before it.
        comparison_reusable_tokens: u64,
    },
    /// The earlier response is not remembered.
    ComparisonResponseNotFound,
}

/// Why a prompt does not begin with an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names of the Responses API")]
pub enum CacheMissReason {
    ModelChanged,
    PromptCacheKeyChanged,
    ToolsChanged,
    TextFormatChanged,
    ReasoningEffortChanged,
    VerbosityChanged,
    ContextCompacted,
    InputChanged,
    ServiceTierChanged,
}

/// A reasoning item of the request that the model does not get: an element of
/// `input_transformations`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "reasoning")]
pub struct RemovedReasoning {
    /// The id of the item.
    pub id: String,
    action: RemovalAction,
    /// Why.
    pub reason: RemovalReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum RemovalAction {
    Removed,
}

/// Why reasoning is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemovalReason {
    /// Another model made it.
    ModelMismatch,
    /// The provider takes no reasoning of earlier answers.
    TurnBoundary,
}

/// The reasoning of a turn that is not in its encoded request, in its order and limited in number.
/// `origin` is the provider and model that gets the request.
pub fn removed_reasoning(
    turn: &Turn<'_>,
    spans: &[ItemSpan],
    origin: &str,
    replays_reasoning: bool,
) -> Vec<RemovedReasoning> {
    let mut is_sent = vec![false; turn.items.len()];
    for span in spans.iter().filter(|span| !span.bytes.is_empty()) {
        if let Some(is_sent) = is_sent.get_mut(span.item) {
            *is_sent = true;
        }
    }
    let items = turn.items.iter().zip(is_sent);
    let removed = items.filter(|(item, is_sent)| item.kind == ItemKind::Reasoning && !is_sent);
    let removed = removed.filter_map(|(item, _)| {
        let reason = if is_of_another(item, origin) {
            RemovalReason::ModelMismatch
        } else if replays_reasoning {
            // It is empty, or its state goes back with a call.
            return None;
        } else {
            RemovalReason::TurnBoundary
        };
        Some(RemovedReasoning {
            id: item.id()?.into_owned(),
            action: RemovalAction::Removed,
            reason,
        })
    });
    removed.take(MAX_TRANSFORMATIONS).collect()
}

/// Whether another provider or model made the state that a reasoning item carries.
fn is_of_another(item: &Item<'_>, origin: &str) -> bool {
    let sealed = item.encrypted_content().unwrap_or_default();
    if sealed.is_empty() {
        return false;
    }
    match Baggage::open(&sealed) {
        Some(baggage) => baggage.origin != origin,
        None => origin::unwrap(origin, &sealed).is_none(),
    }
}
