//! Writes the fields of a request body.
//!
//! A provider or model may have fixed fields in its configuration. Each is sent
//! unless the encoder writes a field of that name; then the encoder's value wins,
//! because it is what the client asked for or what the request needs. In objects
//! that both write, such as `thinking`, the encoder's keys win one by one.

use std::ops::Range;

use registry::{EnumSet, Model, ToolChoiceMode};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::encode_options::EncodeOptions;
use crate::json;
use crate::media::MediaEstimate;
use crate::notes::Notes;
use crate::output_limit::OutputLimit;
use crate::plan::Plan;
use crate::refusal::change::LeftOut;
use crate::schema::ReferenceRoom;
use crate::text::Text;
use crate::tools::{ProxyToolUse, Tool, ToolChoice};
use crate::turn::{Item, Turn};

/// A request body that is being written.
pub(crate) struct BodyWriter<'o, 'a> {
    pub(crate) out: Vec<u8>,
    pub(crate) turn: &'o Turn<'a>,
    pub(crate) model: &'o Model,
    /// What the request changes or leaves out of the turn.
    pub(crate) notes: Notes,
    /// The room for the references of all schemas.
    pub(crate) reference_room: ReferenceRoom,
    /// See [`BodyOffsets::artifact_tools`](crate::encoded::BodyOffsets::artifact_tools).
    pub(crate) artifact_tools: Range<usize>,
    /// The contents that the session leaves out.
    pub(crate) left_out: Option<&'o LeftOut>,
    fixed: &'o [(String, String)],
    written: Vec<&'static str>,
}

impl<'o, 'a> BodyWriter<'o, 'a> {
    pub(crate) fn new(turn: &'o Turn<'a>, options: &EncodeOptions<'o>) -> Self {
        let mut out = Vec::with_capacity(size_hint(turn));
        out.push(b'{');
        Self {
            out,
            turn,
            model: options.model,
            notes: turn.notes.clone(),
            reference_room: ReferenceRoom::default(),
            artifact_tools: 0..0,
            left_out: options.left_out,
            fixed: &options.dialect.body,
            written: Vec::new(),
        }
    }

    /// Notes where the tools that read artifacts are in the list of tools.
    pub(crate) fn set_artifact_tools(&mut self, list: &Range<usize>, part: Range<usize>) {
        let is_first = part.start.checked_sub(1).and_then(|at| self.out.get(at)) == Some(&b'[');
        let is_all = is_first && part.end + 1 == list.end;
        self.artifact_tools = if is_all { list.clone() } else { part };
    }

    /// Begins a field; the caller writes its value.
    pub(crate) fn key(&mut self, name: &'static str) {
        self.written.push(name);
        json::key(&mut self.out, name);
    }

    pub(crate) fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) {
        self.key(name);
        json::push(&mut self.out, value);
    }

    pub(crate) fn raw_field(&mut self, name: &'static str, json: &str) {
        self.written.push(name);
        json::raw_field(&mut self.out, name, json);
    }

    /// Writes a field if the provider accepts it, else notes that it was dropped.
    pub(crate) fn field_if<T: Serialize>(
        &mut self,
        name: &'static str,
        value: Option<T>,
        accepted: bool,
    ) {
        match value {
            Some(value) if accepted => self.field(name, &value),
            Some(_) => self.notes.add("parameter_dropped", name),
            None => {}
        }
    }

    /// Writes the parameters of sampling, if the model takes any. `accepted` says whether the
    /// provider takes a temperature, `top_p` and penalties.
    pub(crate) fn push_sampling(&mut self, temperature: Option<f64>, accepted: [bool; 3]) {
        let [takes_temperature, top_p, penalties] = accepted;
        let controls = &self.turn.controls;
        for (name, value, accepted) in [
            ("temperature", temperature, takes_temperature),
            ("top_p", controls.top_p, top_p),
            ("presence_penalty", controls.presence_penalty, penalties),
            ("frequency_penalty", controls.frequency_penalty, penalties),
        ] {
            self.field_if(name, value, self.model.sampling && accepted);
        }
    }

    /// Writes the tier and the cache key if the provider takes them.
    pub(crate) fn push_services(&mut self, tier: bool, cache_key: bool) {
        let controls = &self.turn.controls;
        self.field_if("service_tier", controls.service_tier.as_deref(), tier);
        if let Some(key) = controls.prompt_cache_key.as_ref().filter(|_| cache_key) {
            self.key("prompt_cache_key");
            key.push_json(&mut self.out);
        }
    }

    /// Whether no tool is offered because the provider cannot be told that none may be called.
    pub(crate) fn leaves_out_tools(
        &mut self,
        plan: &Plan,
        accepted: EnumSet<ToolChoiceMode>,
    ) -> bool {
        let is_none = self.turn.tool_choice == ToolChoice::None;
        let leaves_out = is_none && !accepted.contains(ToolChoiceMode::None);
        if leaves_out && self.turn.tools.iter().any(|tool| plan.offers(tool)) {
            let detail = "tool_choice 'none' is not accepted by the provider";
            self.notes.add("tools_left_out", detail);
        }
        leaves_out
    }

    /// Takes the tools off a list that the session leaves out. Returns their names.
    pub(crate) fn leave_out_refused<'t>(&mut self, tools: &mut Vec<&'t Tool<'a>>) -> Vec<&'t str> {
        let Some(left_out) = self.left_out.filter(|it| !it.tools.is_empty()) else {
            return Vec::new();
        };
        let is_refused = |tool: &Tool<'_>| left_out.has_tool(&tool.wire_name);
        let refused = tools.iter().filter(|tool| is_refused(tool));
        let refused: Vec<&'t str> = refused.map(|tool| tool.wire_name.as_str()).collect();
        tools.retain(|tool| !is_refused(tool));
        for name in &refused {
            self.notes.add("tool_dropped", *name);
        }
        refused
    }

    /// Takes the last tools off a list that is too long for the provider, except for the one that
    /// has to be called. Returns the names of the tools that the model does not get.
    pub(crate) fn cut_tools<'t>(
        &mut self,
        tools: &mut Vec<&'t Tool<'a>>,
        most: Option<u16>,
    ) -> Vec<&'t str> {
        let most = most.map_or(usize::MAX, usize::from);
        if tools.len() > most {
            // They are no tools of the client, which has nothing to do about them.
            tools.retain(|tool| tool.proxy != Some(ProxyToolUse::WithArtifacts));
        }
        if tools.len() <= most {
            return Vec::new();
        }
        if let ToolChoice::Named(name) = &self.turn.tool_choice
            && let Some(place) = tools.iter().position(|tool| tool.wire_name == *name)
            && place >= most
        {
            let forced = tools.remove(place);
            tools.insert(most.saturating_sub(1), forced);
        }
        let beyond = tools.split_off(most);
        self.note_cut_tools(beyond.len(), most);
        beyond
            .into_iter()
            .map(|tool| tool.wire_name.as_str())
            .collect()
    }

    pub(crate) fn note_cut_tools(&mut self, beyond: usize, most: usize) {
        let detail = format!(
            "{beyond} are beyond the {most} that the provider takes: offer fewer, or let the model search for them (tool_search)"
        );
        self.notes.add("tools_cut", detail);
    }

    /// Writes `tool_choice`, unless it is `auto`. A value that the provider does not accept is
    /// left out, which means `auto`. `push_named` writes the choice of the tool with a name.
    pub(crate) fn push_tool_choice(
        &mut self,
        accepted: EnumSet<ToolChoiceMode>,
        push_named: impl FnOnce(&mut Vec<u8>, &str),
    ) {
        let (mode, name) = match &self.turn.tool_choice {
            ToolChoice::Auto
            | ToolChoice::Allowed {
                required: false, ..
            } => return,
            ToolChoice::None => return self.field("tool_choice", "none"),
            ToolChoice::Required | ToolChoice::Allowed { required: true, .. } => {
                (ToolChoiceMode::Required, "required")
            }
            ToolChoice::Named(name) => (ToolChoiceMode::Named, name.as_str()),
        };
        let is_refused =
            |left_out: &LeftOut| mode == ToolChoiceMode::Named && left_out.has_tool(name);
        if !accepted.contains(mode) || self.left_out.is_some_and(is_refused) {
            let detail = format!("{name}: the model is free to call");
            return self.notes.add("tool_choice_dropped", detail);
        }
        self.key("tool_choice");
        match mode {
            ToolChoiceMode::Named => push_named(&mut self.out, name),
            ToolChoiceMode::None | ToolChoiceMode::Required => json::push(&mut self.out, name),
        }
    }

    /// Writes an object with one key, and with the other keys of the fixed field of
    /// that name.
    pub(crate) fn object(&mut self, name: &'static str, key: &str, value: Value) {
        let fixed = self.fixed.iter().find(|(fixed, _)| fixed == name);
        let mut object: Map<String, Value> = fixed
            .and_then(|(_, json)| serde_json::from_str(json).ok())
            .unwrap_or_default();
        object.insert(key.to_owned(), value);
        self.field(name, &object);
    }

    /// Writes the fixed fields that are not written otherwise. `later` are the fields that
    /// follow, besides the output limit; see [`OutputLimit::requested`]. Returns the limit.
    pub(crate) fn push_fixed_fields(
        &mut self,
        later: &[&'static str],
        limit_field: Option<&'static str>,
        default_limit: Option<u64>,
    ) -> Option<OutputLimit> {
        let (turn, model) = (self.turn, self.model);
        let limit =
            OutputLimit::requested(turn, model, limit_field, default_limit, &mut self.notes);
        self.written.extend(later);
        self.written.extend(limit.map(|limit| limit.field));
        for (name, value) in self.fixed {
            if !self.written.contains(&name.as_str()) {
                self.out.push(b',');
                json::push(&mut self.out, name);
                self.out.push(b':');
                self.out.extend_from_slice(value.as_bytes());
            }
        }
        limit
    }

    /// Ends the body with the output limit. Returns the estimated tokens of the input, which holds
    /// these images and files.
    pub(crate) fn finish(&mut self, limit: Option<OutputLimit>, media: MediaEstimate) -> u64 {
        let tokens = media.tokens_of(self.out.len(), self.model.bytes_per_token());
        if let Some(limit) = limit {
            let most = limit.fit(self.model, tokens, &mut self.notes);
            self.field(limit.field, &most);
        }
        self.out.push(b'}');
        tokens
    }
}

/// About the size of the request: nearly all of it is copied.
fn size_hint(turn: &Turn<'_>) -> usize {
    let raw_len = |item: &Item<'_>| item.raw().map_or(0, str::len);
    let text_len = |item: &Item<'_>| item.plain_text().map_or(0, Text::escaped_len);
    let items = turn.items.iter();
    let items: usize = items.map(|item| raw_len(item) + text_len(item) + 128).sum();
    items + turn.echo.tools.map_or(0, |tools| tools.get().len()) + 4096
}
