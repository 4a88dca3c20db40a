//! The state of the process that decides about one turn. A recorder stores it with the turn; a
//! replay restores it, so that the turn runs as it did.

use std::collections::{BTreeMap, BTreeSet};

use adapters::hidden_rounds::HiddenRounds;
use adapters::image_texts::ImageTexts;
use adapters::plan::{OutputPolicy, Retention, UnshortenedFrom};
use adapters::quirk_patch::QuirkPatch;
use adapters::responses::prompt_cache::PromptCacheDiagnostics;
use adapters::tools::{McpListing, ProxyTool};
use serde::{Deserialize, Serialize};

use super::background::ResponseIdentity;
use super::calibration::TokenCalibration;
use super::session_changes::ChangedSession;
use super::tool_runner::RecordedToolCall;
use crate::config::{ClientToolMode, KeyOrigin, ToolConfig};
use crate::responses::{LoadedHistory, ResponseStore};
use crate::upstream::LargestAnswer;

/// The part of the state of the process that one turn depends on, as it was before the turn. Not
/// `Debug`, because it holds parts of the conversation.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TurnState {
    /// What was learned about the models of the turn's routes.
    pub model_patches: Vec<ModelPatches>,
    /// The items that the request refers to: JSON by item id.
    pub items: BTreeMap<String, String>,
    /// The reasoning state that providers want back with calls: blobs by call id.
    pub baggage: BTreeMap<String, String>,
    /// Full name of the route that the session switched to, if it did.
    pub moved_to: Option<String>,
    /// The providers of the turn's routes.
    pub providers: Vec<ProviderState>,
    /// How many requests had failed for the same prompt before.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed_requests: u32,
    /// The tools of the session as a JSON list, if the request asks for a summary and brings no
    /// tools of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<String>,
    /// The token count of the session's previous request, if this request may be compacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<TokenCalibration>,
    /// What the client did not see of the earlier answers that this request continues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden_rounds: Vec<HiddenRounds>,
    /// The tools that ran in the proxy, as they were offered to the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proxy_tools: Vec<ProxyTool>,
    /// What the MCP servers of the request offered, if the proxy connected to them. It asked them
    /// for the turn itself, but a replay reaches none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpListing>,
    /// What was known of the images, if the model took none.
    #[serde(skip_serializing_if = "ImageTexts::is_empty")]
    pub image_texts: ImageTexts,
    /// The calls of these tools, in the order in which they ran. They happened in the turn itself,
    /// but a replay has no tools and needs what they returned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<RecordedToolCall>,
    /// How the prompt compared with that of the response that the client named. It was found in the
    /// turn itself, but a replay does not know the other response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_diagnostics: Option<PromptCacheDiagnostics>,
    /// The point from which on the outputs of the session were sent whole, if they were.
    #[serde(skip_serializing_if = "Option::is_none", alias = "whole")]
    pub unshortened_from: Option<UnshortenedFrom>,
    /// What the session did otherwise because it was refused, by the full name of the route.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub session_changes: BTreeMap<String, ChangedSession>,
    /// The bytes per token with which the session had begun, or began, by the full name of the
    /// route; for models of which that is learned.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bytes_per_token: BTreeMap<String, f32>,
    /// Whether the turn was stored.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stored: bool,
    /// The stored history that it continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<LoadedHistory>,
    /// The response of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<ResponseIdentity>,
    /// What became of calls of the client's functions in background responses.
    #[serde(skip_serializing_if = "is_usual_mode")]
    pub client_tools: ClientToolMode,
    /// How much tools of the proxy might do.
    #[serde(skip_serializing_if = "is_usual")]
    pub tool_limits: ToolConfig,
    /// How tool outputs were bounded.
    pub outputs: OutputPolicy,
    /// Where shortened outputs were stored.
    pub retention: Retention,
    /// The ids of the shortened outputs for which there was no room there.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub unkept: BTreeSet<String>,
}

impl TurnState {
    /// A store that has what the recorded turn was given from it.
    pub fn recorded_responses(&self) -> ResponseStore {
        ResponseStore::recorded(self.history.clone(), self.stored)
    }
}

/// What was learned about one model.
#[derive(Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPatches {
    /// The provider's id.
    pub provider: String,
    /// The provider's name of the model.
    pub model: String,
    /// The patches, in the order in which they were learned.
    pub patches: Vec<QuirkPatch>,
    /// Older ones that were left out to see whether they were still needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried_again: Vec<QuirkPatch>,
    /// The most that it had answered, by which a limit is believed or not.
    #[serde(default, skip_serializing_if = "LargestAnswer::is_none")]
    pub answered: LargestAnswer,
}

/// The keys and the health of one provider. Messages name the origin of the keys.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderState {
    /// The provider's id.
    pub provider: String,
    /// For each API key, the milliseconds for which it is still not used; 0 for a usable key.
    pub keys_rest_ms: Vec<u64>,
    /// The milliseconds for which the provider still counts as down; 0 if it is not down.
    pub down_ms: u64,
    /// Whether it had answered lately, so that it was worth waiting for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub answered_lately: bool,
    /// Where its keys came from; `None` if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_origin: Option<KeyOrigin>,
}

fn is_usual(limits: &ToolConfig) -> bool {
    *limits == ToolConfig::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_usual_mode(mode: &ClientToolMode) -> bool {
    *mode == ClientToolMode::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
