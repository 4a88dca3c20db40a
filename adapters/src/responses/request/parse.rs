//! Reads the members of a request body.

use std::collections::HashSet;

use registry::RelayToolKind;
use serde_json::value::RawValue;

use super::TurnSource;
use super::continuation::read_continuation;
use crate::fault::Fault;
use crate::json::{self, MAX_DEPTH, string_value};
use crate::notes::Notes;
use crate::purpose::Purpose;
use crate::responses::parameters::{
    SEARCH_RESULTS, SEARCH_SOURCES, check_metadata, read_bool, read_cache_comparison,
    read_context_management, read_include, read_integer, read_number, read_reasoning, read_text,
    read_truncation,
};
use crate::responses::request_body::{MAX_ITEMS, RequestBody, RequestInput};
use crate::responses::tool_choice::{self, read_tool_choice};
use crate::text::Text;
use crate::tools::{ProxyTool, ToolChoice, Toolbox, WebSearchDefinition};
use crate::turn::{Controls, EchoedParams, Item, ItemKind, Turn};

/// The most elements of a list in an item, such as the parts of a message. OpenAI takes 1,500
/// images.
const MAX_ELEMENTS: usize = 10_000;

/// The longest name of a model: names are remembered, and are labels of metrics.
pub(super) const MAX_MODEL_BYTES: usize = 256;

/// Parses the body of a request alone, without its tools and what it refers to.
pub(super) fn parse(source: &TurnSource) -> Result<Turn<'_>, Fault> {
    let (json, stop) = (source.body.as_str(), &source.stop);
    stop.check()?;
    let body = RequestBody::parse(json, stop);
    stop.check()?;
    let mut body = body.map_err(|error| unreadable_body(json, &error))?;
    if body.has_too_many_items {
        let message = format!(
            "The parameter 'input' has more than {MAX_ITEMS} items: compact the history, or leave out its beginning."
        );
        return Err(Fault::invalid("input", message).with_code("too_many_items"));
    }
    if let Some(fault) = body.chat_parameter.take() {
        return Err(fault);
    }
    let mut notes = Notes::default();
    for name in &body.unknown {
        notes.add("parameter_unknown", name);
    }
    if source.has_replaced_text {
        notes.add(
            "text_replaced",
            "half a surrogate pair, or bytes that are not UTF-8",
        );
    }

    if source.refuses_prompts {
        refuse_prompt(&body)?;
    }
    let model = match body.model.map(RawValue::get) {
        None => {
            return Err(Fault::invalid("model", "The parameter 'model' is missing.")
                .with_code("missing_required_parameter"));
        }
        Some(_) => string_value(body.model)
            .filter(|model| !model.trim().is_empty())
            .ok_or_else(|| {
                Fault::invalid("model", "The parameter 'model' must be a non-empty string.")
            })?,
    };
    if model.len() > MAX_MODEL_BYTES {
        let message = format!("The parameter 'model' is longer than {MAX_MODEL_BYTES} bytes.");
        return Err(Fault::invalid("model", message));
    }
    let continues = read_continuation(&body)?;
    let background = read_background(&body)?;
    check_metadata(body.metadata)?;
    let items = match body.input.take() {
        Some(RequestInput::Items(items)) => items,
        Some(RequestInput::Text(text)) => vec![Item::user(text)],
        None => Vec::new(),
    };
    let is_too_deep = |raw: &RawValue| json::is_deeper_than(raw.get(), MAX_DEPTH);
    if body.parameters().any(is_too_deep) {
        return Err(too_deep());
    }
    for (index, item) in items.iter().enumerate() {
        stop.check()?;
        for value in item.nested_values() {
            if is_too_deep(value) {
                return Err(too_deep());
            }
            if json::has_more_elements_than(value.get(), MAX_ELEMENTS) {
                let message = format!(
                    "A list of input[{index}] has more than {MAX_ELEMENTS} elements: join texts, or send several items."
                );
                return Err(Fault::invalid(format!("input[{index}]"), message)
                    .with_code("too_many_elements"));
            }
        }
    }
    refuse_early_trigger(&items)?;
    if items.is_empty() && body.instructions.is_none() && continues.is_none() {
        return Err(Fault::invalid(
            "input",
            "The parameter 'input' is missing: send a string or a list of items.",
        )
        .with_code("missing_required_parameter"));
    }
    let instructions = match body.instructions {
        None => None,
        Some(raw) => Some(Text::from_raw(raw).ok_or_else(|| {
            Fault::invalid(
                "instructions",
                "The parameter 'instructions' must be a string.",
            )
        })?),
    };

    let mut controls = Controls {
        temperature: read_number(body.temperature, "temperature", 0.0..=2.0)?,
        top_p: read_number(body.top_p, "top_p", 0.0..=1.0)?,
        presence_penalty: read_number(body.presence_penalty, "presence_penalty", -2.0..=2.0)?,
        frequency_penalty: read_number(body.frequency_penalty, "frequency_penalty", -2.0..=2.0)?,
        top_logprobs: read_integer(body.top_logprobs, "top_logprobs", 0..=20)?,
        max_output_tokens: read_integer(body.max_output_tokens, "max_output_tokens", 1..=u64::MAX)?,
        service_tier: string_value(body.service_tier),
        prompt_cache_key: body.prompt_cache_key.and_then(Text::from_raw),
        ..Controls::default()
    };
    read_text(body.text, &mut controls)?;
    read_reasoning(body.reasoning, &mut controls)?;
    read_include(body.include, &mut controls, &mut notes);
    let cache_comparison = read_cache_comparison(body.prompt_cache_options, &mut notes)?;
    if body.moderation.is_some() {
        notes.add("parameter_ignored", "moderation");
    }

    Ok(Turn {
        model,
        stream: read_bool(body.stream, "stream")?.unwrap_or(false),
        store: read_bool(body.store, "store")?.unwrap_or(true),
        continues,
        background,
        instructions,
        items,
        replaced_items: Vec::new(),
        tools: Toolbox::default(),
        dropped_tools: Vec::new(),
        withheld_tools: HashSet::new(),
        image_texts: None,
        mcp_notice: None,
        names_artifacts: false,
        known_sources: Vec::new(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: read_bool(body.parallel_tool_calls, "parallel_tool_calls")?,
        controls,
        cache_comparison,
        echo: EchoedParams {
            instructions: body.instructions,
            metadata: body.metadata,
            prompt: body.prompt,
            prompt_cache_key: body.prompt_cache_key,
            reasoning: body.reasoning,
            safety_identifier: body.safety_identifier,
            text: body.text,
            tool_choice: body.tool_choice.map(tool_choice::echoed),
            tools: body.tools,
            truncation: body.truncation,
            max_tool_calls: body.max_tool_calls,
            user: body.user,
        },
        purpose: Purpose::Answer,
        may_truncate: read_truncation(body.truncation)?,
        compact_threshold: read_context_management(body.context_management)?,
        notes,
        stop: stop.clone(),
    })
}

/// Applies the changes of the settings that are among the items of a request.
pub(super) fn read_updates(turn: &mut Turn<'_>) -> Result<(), Fault> {
    let Turn {
        items, controls, ..
    } = turn;
    for item in items {
        if item.kind == ItemKind::ConfigurationUpdate {
            read_text(item.text(), controls)?;
            read_reasoning(item.reasoning(), controls)?;
        }
    }
    Ok(())
}

/// Reads the tools of a request and of its items, those of the history that it continues included,
/// and `tool_choice`. `tools` is a JSON list that replaces the tools of the request.
/// The tools of the proxy are added behind them.
pub(super) fn read_tools<'a>(
    turn: &mut Turn<'a>,
    tools: Option<&'a str>,
    proxy_tools: &'a [ProxyTool],
) -> Result<(), Fault> {
    let mut dropped = Vec::new();
    let hosted = proxy_tools.iter().filter_map(|tool| tool.in_place_of);
    turn.tools.set_runnable(hosted);
    let offered: Option<&'a RawValue> = match tools {
        Some(tools) => serde_json::from_str(tools).ok(),
        None => turn.echo.tools,
    };
    if let Some(list) = offered {
        turn.tools.add_definitions(list, false, &mut dropped)?;
    }
    for item in &turn.items {
        let found = match item.kind {
            ItemKind::AdditionalTools => false,
            ItemKind::ToolSearchOutput | ItemKind::ServerToolSearch => true,
            _ => continue,
        };
        if let Some(list) = item.tools() {
            turn.tools.add_definitions(list, found, &mut dropped)?;
        }
    }
    WebSearchDefinition::of(&turn.tools).transpose()?;
    for tool in proxy_tools.iter().filter(|tool| tool.in_place_of.is_some()) {
        let added = turn.tools.add_proxy_tool(tool);
        turn.withheld_tools.extend(added);
    }
    if let Some(search) = proxy_tools.iter().find(|tool| tool.finds_tools) {
        let added = turn.tools.add_search_function(search);
        turn.withheld_tools.extend(added);
    }
    if turn.tools.hosted(RelayToolKind::WebSearch).next().is_none() {
        let controls = &turn.controls;
        for (is_asked, name) in [
            (controls.search_sources, SEARCH_SOURCES),
            (controls.search_results, SEARCH_RESULTS),
        ] {
            if is_asked {
                turn.notes.add("include_ignored", name);
            }
        }
    }
    for kind in &dropped {
        turn.notes.add("tool_dropped", kind.clone());
    }
    let choice = turn.echo.tool_choice.as_deref();
    let choice: Option<&RawValue> = choice.and_then(|json| serde_json::from_str(json).ok());
    turn.tool_choice = read_tool_choice(choice, &turn.tools, &dropped)?;
    turn.dropped_tools = dropped;
    Ok(())
}

fn too_deep() -> Fault {
    let message =
        format!("The request body nests arrays and objects more than {MAX_DEPTH} levels deep.");
    Fault::invalid("body", message).with_code("invalid_json")
}

/// A `compaction_trigger` as the last item asks for a summary; anywhere else it has no
/// meaning and is an error.
fn refuse_early_trigger(items: &[Item<'_>]) -> Result<(), Fault> {
    let earlier = items.split_last().map_or(&[][..], |(_, earlier)| earlier);
    let found = earlier
        .iter()
        .position(|item| item.kind == ItemKind::CompactionTrigger);
    match found {
        Some(index) => Err(Fault::invalid(
            format!("input[{index}]"),
            "A 'compaction_trigger' must be the last item of the input.",
        )),
        None => Ok(()),
    }
}

/// The error for a body that does not parse. The message of serde contains line and
/// column.
fn unreadable_body(json: &str, error: &serde_json::Error) -> Fault {
    let what = match error.classify() {
        serde_json::error::Category::Data => "does not fit the Responses API",
        _ => "is not valid JSON",
    };
    let hint = if json.trim_start().starts_with('{') {
        ""
    } else {
        " It must be one JSON object."
    };
    Fault::invalid("body", format!("The request body {what}: {error}.{hint}"))
        .with_code("invalid_json")
}

fn read_background(body: &RequestBody<'_>) -> Result<bool, Fault> {
    let background = read_bool(body.background, "background")?.unwrap_or(false);
    if background && !read_bool(body.store, "store")?.unwrap_or(true) {
        let message = "A background response is stored: send 'background' without 'store: false'.";
        return Err(Fault::invalid("background", message).with_code("unsupported_parameter"));
    }
    Ok(background)
}

/// Refuses a prompt.
fn refuse_prompt(body: &RequestBody<'_>) -> Result<(), Fault> {
    if body.prompt.is_some() {
        return Err(Fault::invalid(
            "prompt",
            "This server has no prompt templates: name their folder in [prompts] of its configuration, or send 'instructions' and 'input'.",
        )
        .with_code("unsupported_parameter"));
    }
    Ok(())
}
