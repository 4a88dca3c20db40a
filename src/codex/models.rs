//! The body of `GET /v1/models`: `data` for OpenAI SDKs, `models` for Codex.

use serde::Serialize;
use serde_json::value::RawValue;

use super::prompt;

/// Codex refuses a catalog above 1 MiB; this leaves room for headers and for
/// what a later Codex may count differently.
pub const BODY_LIMIT: usize = 900 * 1024;

/// What the catalog says of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEntry {
    /// The name a client asks for, unique in the list.
    pub slug: String,
    /// The name in Codex's model picker.
    pub display_name: String,
    /// One line for the model picker.
    pub description: String,
    /// Who serves it, for OpenAI SDKs.
    pub owned_by: String,
    /// Context window in tokens, output included.
    pub window: u64,
    /// Tokens after which Codex compacts; Codex itself uses 90 % of the
    /// window at most.
    pub auto_compact: u64,
    /// Whether it takes images.
    pub images: bool,
    /// Reasoning efforts it can be asked for, weakest first; may be empty.
    pub reasoning: Vec<String>,
    /// The effort used when none is asked for, one of `reasoning`.
    pub default_reasoning: Option<String>,
}

impl ModelEntry {
    /// Codex's own threshold, 90 % of the window, or what leaves room for an answer.
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

/// The body and what had to be given up to keep it under its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// The JSON text.
    pub json: String,
    /// Entries from the tail of `models` that got [`prompt::SHORT`].
    pub shortened: usize,
    /// Entries missing from the tail of `models`; Codex treats them as unknown
    /// models, they work all the same.
    pub dropped: usize,
}

/// Builds the body, at most [`BODY_LIMIT`] bytes. `models` come in order of
/// preference: the order is the priority in Codex, and when the instructions,
/// which every entry repeats, do not fit, the tail pays.
///
/// First entries at the tail get short instructions; when even that is too
/// much, the tail of `models` is left out. `data` is always whole, unless it
/// alone exceeds the limit.
pub fn body(models: &[ModelEntry], instructions: &str) -> Body {
    body_within(BODY_LIMIT, models, instructions)
}

fn body_within(limit: usize, models: &[ModelEntry], instructions: &str) -> Body {
    let short = if prompt::SHORT.len() < instructions.len() {
        prompt::SHORT
    } else {
        instructions
    };
    let mut free = limit.saturating_sub(EMPTY.len());
    let data = fill(
        &mut free,
        models.iter().filter_map(|model| raw(&data_item(model))),
    );
    let mut infos: Vec<Box<RawValue>> = fill(
        &mut free,
        models
            .iter()
            .enumerate()
            .filter_map(|(at, model)| raw(&info(at, model, short))),
    );
    let mut full = 0;
    for (at, (slot, model)) in infos.iter_mut().zip(models).enumerate() {
        let Some(longer) = raw(&info(at, model, instructions)) else {
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
    let list = List {
        object: "list",
        data: &data,
        models: &infos,
    };
    Body {
        json: serde_json::to_string(&list).unwrap_or_else(|_| EMPTY.to_owned()),
        shortened: infos.len().saturating_sub(full),
        dropped: models.len().saturating_sub(infos.len()),
    }
}

const EMPTY: &str = r#"{"object":"list","data":[],"models":[]}"#;

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: &'a [Box<RawValue>],
    models: &'a [Box<RawValue>],
}

/// Takes items, each with its comma, while they fit.
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

/// A model as `GET /v1/models` of OpenAI lists it.
#[derive(Serialize)]
struct DataItem<'a> {
    id: &'a str,
    object: &'static str,
    /// Required by SDKs; nobody knows it, so it is the epoch.
    created: u64,
    owned_by: &'a str,
}

fn data_item(model: &ModelEntry) -> DataItem<'_> {
    DataItem {
        id: &model.slug,
        object: "model",
        created: 0,
        owned_by: &model.owned_by,
    }
}

/// Codex's `ModelInfo`: all fields that 0.169 requires, and those of the
/// optional ones that change what it does. One entry that does not decode
/// makes Codex drop the whole list.
#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "the fields are Codex's")]
pub(super) struct Info<'a> {
    slug: &'a str,
    display_name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_reasoning_level: Option<&'a str>,
    supported_reasoning_levels: Vec<Level<'a>>,
    shell_type: &'static str,
    visibility: &'static str,
    supported_in_api: bool,
    priority: usize,
    supports_reasoning_summaries: bool,
    default_reasoning_summary: &'static str,
    support_verbosity: bool,
    /// Without it Codex offers no `apply_patch` at all; 0.169 knows no other
    /// value.
    apply_patch_tool_type: &'static str,
    truncation_policy: Truncation,
    supports_parallel_tool_calls: bool,
    context_window: u64,
    max_context_window: u64,
    auto_compact_token_limit: u64,
    effective_context_window_percent: u64,
    experimental_supported_tools: [&'static str; 0],
    input_modalities: &'static [&'static str],
    supports_search_tool: bool,
    base_instructions: &'a str,
}

#[derive(Serialize)]
struct Level<'a> {
    /// Codex 0.169 takes any word, `max` and unknown ones included.
    effort: &'a str,
    description: &'static str,
}

#[derive(Serialize)]
struct Truncation {
    mode: &'static str,
    limit: u64,
}

pub(super) fn info<'a>(at: usize, model: &'a ModelEntry, instructions: &'a str) -> Info<'a> {
    Info {
        slug: &model.slug,
        display_name: &model.display_name,
        description: &model.description,
        default_reasoning_level: model
            .default_reasoning
            .as_deref()
            .filter(|level| model.reasoning.iter().any(|known| known == level)),
        supported_reasoning_levels: model
            .reasoning
            .iter()
            .map(|effort| Level {
                effort,
                description: level_description(effort),
            })
            .collect(),
        shell_type: "unified_exec",
        visibility: "list",
        supported_in_api: true,
        priority: at + 1,
        supports_reasoning_summaries: true,
        default_reasoning_summary: "auto",
        support_verbosity: false,
        apply_patch_tool_type: "freeform",
        truncation_policy: Truncation {
            mode: "tokens",
            limit: output_tokens(model.window),
        },
        supports_parallel_tool_calls: true,
        context_window: model.window,
        max_context_window: model.window,
        auto_compact_token_limit: model.auto_compact,
        effective_context_window_percent: SHOWN_PERCENT,
        experimental_supported_tools: [],
        input_modalities: if model.images {
            &["text", "image"]
        } else {
            &["text"]
        },
        supports_search_tool: false,
        base_instructions: instructions,
    }
}

/// The part of the window that Codex shows as the whole of it. It is Codex's own
/// default, said aloud so that the number does not depend on the version: of
/// 262,144 tokens Codex shows 249,036. A model that Codex does not find in a
/// catalog is taken for one of 272,000: 258,400 are shown, and it compacts at
/// 244,800, whatever the model can hold.
const SHOWN_PERCENT: u64 = 95;

/// How many tokens, of four bytes, Codex lets through of one tool output; the rest
/// is lost before anybody can keep it.
///
/// What the model sees is bounded later, so a higher number only brings more
/// evidence, but it has a price: what came in since the last answer counts for
/// Codex's own trigger of compaction at a token for four bytes, although the model
/// will see far less of it. An eighth of the window keeps one output from filling
/// it. Measured with 0.169: texts of MCP tools are cut at 1.2 times the number;
/// those of commands stay at 10,000 tokens unless the model asks for more with
/// `max_output_tokens`, which the number bounds, so less than 10,000 would lose
/// what a stock Codex has.
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
pub(super) mod tests;
