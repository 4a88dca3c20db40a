//! The body of `GET /v1/models`: `data` for OpenAI SDKs, `models` for Codex.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::prompt;

/// Largest body in bytes. Codex refuses a catalog above 1 MiB; the rest is room for
/// headers and for what a later Codex may count differently.
pub const BODY_LIMIT: usize = 900 * 1024;

/// One model of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// The name that clients send, unique in the list.
    pub slug: String,
    /// Another name that leads to the same model: `provider/model`, where that is not the first.
    pub other_slug: Option<String>,
    /// The name in Codex's model picker.
    pub display_name: String,
    /// One line for the model picker.
    pub description: String,
    /// The id of the provider, for OpenAI SDKs.
    pub owned_by: String,
    /// Context window in tokens, including the output.
    pub window: u64,
    /// Tokens after which Codex compacts the session. Codex itself uses at most 90 % of
    /// the window.
    pub auto_compact: u64,
    /// Whether it accepts images.
    pub images: bool,
    /// Reasoning efforts that can be requested, weakest first; may be empty.
    pub reasoning: Vec<String>,
    /// The effort when none is requested, one of `reasoning`.
    pub default_reasoning: Option<String>,
    /// Whether the model picker does not show it.
    pub hidden: bool,
    /// Whether Codex leaves out the tools of MCP servers, which the model then has to search.
    pub tool_search: bool,
}

impl CatalogEntry {
    /// Whether this is a name of the model.
    pub fn is_named(&self, name: &str) -> bool {
        self.slug == name || self.other_slug.as_deref() == Some(name)
    }

    /// Codex's own threshold, 90 % of the window, or less where that would leave too
    /// little room for the output.
    pub fn default_auto_compact(window: u64) -> u64 {
        let allowance = registry::Window {
            tokens: window,
            source: registry::WindowSource::Listed,
        }
        .output_allowance();
        let room = window.saturating_sub(allowance + window / 50);
        (window.saturating_mul(9) / 10).min(room)
    }
}

/// The body, and what was left out to keep it within its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelListBody {
    /// The JSON text.
    pub json: String,
    /// Number of entries at the end of `models` that have the [short](prompt::SHORT)
    /// instructions.
    pub shortened: usize,
    /// Number of entries missing at the end of `models`. Codex treats them as unknown
    /// models; they work nevertheless.
    pub dropped: usize,
}

/// Builds the body, at most [`BODY_LIMIT`] bytes. `models` is in order of preference,
/// which is the priority in Codex.
///
/// Every entry repeats the instructions. If they do not fit, entries at the end get
/// short instructions; if that does not suffice, `models` lacks entries at its end.
/// `data` is always complete, unless it alone exceeds the limit.
pub fn build(models: &[CatalogEntry], instructions: &str) -> ModelListBody {
    build_within(BODY_LIMIT, models, instructions)
}

/// Builds the body without instructions, of any size.
pub fn build_whole(models: &[CatalogEntry]) -> ModelListBody {
    build_within(usize::MAX, models, "")
}

fn build_within(limit: usize, models: &[CatalogEntry], instructions: &str) -> ModelListBody {
    let short = if prompt::SHORT.len() < instructions.len() {
        prompt::SHORT
    } else {
        instructions
    };
    let mut free = limit.saturating_sub(EMPTY.len());
    let data = fill(
        &mut free,
        models
            .iter()
            .filter_map(|model| raw(&model_object(&model.slug, &model.owned_by))),
    );
    let mut infos: Vec<Box<RawValue>> = fill(
        &mut free,
        codex_infos(models, short).filter_map(|info| raw(&info)),
    );
    let mut full = 0;
    for (slot, longer) in infos.iter_mut().zip(codex_infos(models, instructions)) {
        let Some(longer) = raw(&longer) else {
            break;
        };
        let more = longer.get().len().saturating_sub(slot.get().len());
        let Some(left) = free.checked_sub(more) else {
            break;
        };
        free = left;
        *slot = longer;
        full += 1;
    }
    let others = models.iter().filter(|model| model.other_slug.is_some());
    let wanted = models.len() + others.count();
    let list = ModelList {
        object: "list",
        data: &data,
        models: &infos,
    };
    ModelListBody {
        json: serde_json::to_string(&list).unwrap_or_else(|_| EMPTY.to_owned()),
        shortened: infos.len().saturating_sub(full),
        dropped: wanted.saturating_sub(infos.len()),
    }
}

const EMPTY: &str = r#"{"object":"list","data":[],"models":[]}"#;

#[derive(Serialize)]
struct ModelList<'a> {
    object: &'static str,
    data: &'a [Box<RawValue>],
    models: &'a [Box<RawValue>],
}

/// Takes items as long as they fit, each with its comma.
fn fill(free: &mut usize, items: impl Iterator<Item = Box<RawValue>>) -> Vec<Box<RawValue>> {
    items
        .map_while(|item| {
            *free = free.checked_sub(item.get().len().saturating_add(1))?;
            Some(item)
        })
        .collect()
}

fn raw(value: &impl Serialize) -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(value).ok()
}

/// A model as the OpenAI API describes it. `created` is required by SDKs, but unknown, so it is
/// zero.
pub(super) fn model_object(id: &str, owned_by: &str) -> Value {
    json!({"id": id, "object": "model", "created": 0, "owned_by": owned_by})
}

/// The entries for Codex: each model under its name, and after these, not shown in the model
/// picker, under its other name. Codex treats a name without an entry as an unknown model, to which
/// it gives neither `apply_patch` nor the right window.
pub(crate) fn codex_infos(
    models: &[CatalogEntry],
    instructions: &str,
) -> impl Iterator<Item = Value> {
    let listed = models
        .iter()
        .enumerate()
        .map(move |(at, model)| codex_info(at, model, instructions));
    let others = models.iter().enumerate().filter_map(move |(at, model)| {
        let other = model.other_slug.as_ref()?;
        let mut info = codex_info(at, model, instructions);
        let fields = info.as_object_mut()?;
        fields.insert("slug".to_owned(), other.as_str().into());
        fields.insert("visibility".to_owned(), "hide".into());
        Some(info)
    });
    listed.chain(others)
}

/// The entry of a model for Codex, its `ModelInfo`: all fields that Codex 0.169 requires, and the
/// optional ones that change what it does. One entry that does not decode makes Codex drop the
/// whole list. `at` is the model's index in the list.
fn codex_info(at: usize, model: &CatalogEntry, instructions: &str) -> Value {
    // Codex 0.169 accepts any word, including `max` and unknown ones.
    let level =
        |effort: &String| json!({"effort": effort, "description": level_description(effort)});
    let default_level = model.default_reasoning.as_ref();
    let mut info = json!({
        "slug": model.slug,
        "display_name": model.display_name,
        "description": model.description,
        "default_reasoning_level": default_level.filter(|level| model.reasoning.contains(level)),
        "supported_reasoning_levels": model.reasoning.iter().map(level).collect::<Vec<_>>(),
        "shell_type": "unified_exec",
        "visibility": if model.hidden { "hide" } else { "list" },
        "supported_in_api": true,
        "priority": at + 1,
        "supports_reasoning_summaries": true,
        "default_reasoning_summary": "auto",
        "support_verbosity": false,
        // Without it Codex does not offer `apply_patch` at all; 0.169 has no other value.
        "apply_patch_tool_type": "freeform",
        "truncation_policy": {"mode": "tokens", "limit": output_tokens(model.window)},
        "supports_parallel_tool_calls": true,
        "context_window": model.window,
        "max_context_window": model.window,
        "auto_compact_token_limit": model.auto_compact,
        "effective_context_window_percent": SHOWN_PERCENT,
        "experimental_supported_tools": [],
        "input_modalities": if model.images { json!(["text", "image"]) } else { json!(["text"]) },
        "supports_search_tool": model.tool_search,
        "base_instructions": instructions,
    });
    if let Some(fields) = info.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    info
}

/// The percentage of the window that Codex shows as the whole window. It is Codex's own
/// default, sent explicitly so that it does not depend on Codex's version: for 262,144
/// tokens Codex shows 249,036. For a model that is in no catalog Codex assumes 272,000:
/// it shows 258,400 and compacts at 244,800, whatever the model can hold.
const SHOWN_PERCENT: u64 = 95;

/// How many tokens of one tool output, at four bytes a token, Codex sends; it discards the rest, so
/// that it cannot be stored.
///
/// This server shortens outputs later for the model, so a higher number only preserves
/// more of them. But it has a price: Codex counts what arrived since the last response,
/// at four bytes a token, towards its own compaction threshold, although the model gets
/// far less of it. An eighth of the window keeps one output from filling the window.
/// Measured with 0.169: texts of MCP tools are cut at 1.2 times the number; outputs of
/// commands stay at 10,000 tokens unless the model asks for more with
/// `max_output_tokens`, which the number limits. So less than 10,000 would lose text
/// that Codex sends by default.
fn output_tokens(window: u64) -> u64 {
    (window / 8).clamp(10_000, 32_768)
}

fn level_description(effort: &str) -> &'static str {
    match effort {
        "none" => "Answers without reasoning",
        "minimal" => "Next to no reasoning",
        "low" => "Little reasoning, quick",
        "medium" => "Balanced",
        "high" => "Thorough, for hard problems",
        _ => "As much reasoning as the model allows",
    }
}

#[cfg(test)]
pub(crate) mod tests;
