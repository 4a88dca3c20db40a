//! Redacts a whole turn. A test puts a secret into each of its texts, so that none is forgotten.

use std::collections::BTreeMap;

use adapters::cited_source::CitedSource;
use adapters::fault::Fault;
use adapters::hidden_rounds::HiddenEntry;
use adapters::plan::output;
use adapters::responses::assembler::{HostedItem, McpCallError};
use adapters::responses::request::TurnSource;
use registry::RouteSnapshot;

use super::{Scrubber, last_mark};
use crate::config::KeyOrigin;
use crate::diagnostics::bundle::{BundleAttempt, BundleTurn};
use crate::secrets::Secret;
use crate::turn::{ProviderState, TurnState};

/// How many outputs may name each other in a row.
const ID_ROUNDS: usize = 8;

impl Scrubber {
    /// Redacts a turn. What the proxy made of the client's request and of the providers' answers
    /// is redacted as well, but may differ from what it would make of the redacted ones: an
    /// excerpt can cut a secret in half. A replay of the redacted turn makes it again. New
    /// marks are numbered after the highest one that the turn has already.
    pub fn turn(&self, turn: &BundleTurn) -> BundleTurn {
        let json = serde_json::to_vec(turn).unwrap_or_default();
        let texts = turn.bodies().into_iter().chain([&json]);
        let last_mark = texts.map(|text| last_mark(text)).max().unwrap_or(0);
        let scrubbed = |ids: &[String]| {
            let secrets: Vec<Secret> = ids.iter().filter_map(|id| Secret::new(id)).collect();
            let mut scrubber = Self::new(self.redactor.and(&secrets), self.keep);
            scrubber.last_mark = last_mark;
            scrubber.scrubbed(turn.clone())
        };
        let mut hidden = Vec::new();
        let mut redacted = scrubbed(&hidden);
        // An output can name another output by its id, so a changed id can change further ones.
        for _ in 0..ID_ROUNDS {
            let ids = ids_of_changed_outputs(turn, &redacted);
            if ids == hidden {
                break;
            }
            redacted = scrubbed(&ids);
            hidden = ids;
        }
        name_images_anew(turn, &mut redacted);
        redacted
    }

    fn scrubbed(&self, mut turn: BundleTurn) -> BundleTurn {
        let request = &mut turn.request;
        self.url(&mut request.path);
        self.headers(&mut request.headers);
        self.body(&mut request.body, &mut Vec::new());
        self.state(&mut turn.state_before);
        self.string(&mut turn.settings.asked);
        for route in &mut turn.settings.routes {
            self.route(route);
        }
        for attempt in &mut turn.attempts {
            self.attempt(attempt);
        }
        self.headers(&mut turn.answer.headers);
        self.body(&mut turn.answer.body, &mut turn.answer.pieces);
        self.body(&mut turn.plan, &mut Vec::new());
        for (_, detail) in &mut turn.notes {
            self.string(detail);
        }
        self.fault(&mut turn.fault);
        turn.correct_omitted();
        turn
    }

    fn attempt(&self, attempt: &mut BundleAttempt) {
        self.string(&mut attempt.route);
        self.url(&mut attempt.url);
        self.headers(&mut attempt.headers);
        self.body(&mut attempt.body, &mut Vec::new());
        if let Some(head) = &mut attempt.head {
            self.headers(&mut head.headers);
        }
        self.body(&mut attempt.answer, &mut attempt.pieces);
        self.fault(&mut attempt.fault);
    }

    fn fault(&self, fault: &mut Option<Fault>) {
        let Some(fault) = fault else { return };
        self.string(&mut fault.message);
        if let Some(text) = &mut fault.param {
            *text = self.text(text).into_owned().into();
        }
        for text in [&mut fault.code, &mut fault.cause].into_iter().flatten() {
            *text = self.text(text).into();
        }
    }

    /// Redacts the fields that a user may have put a secret into; the rest comes from the
    /// registry.
    fn route(&self, route: &mut RouteSnapshot) {
        self.url(&mut route.base_url);
        self.headers(&mut route.headers);
        self.query(&mut route.query);
        let model = &mut route.model;
        let named = [&mut model.id, &mut model.name, &mut model.description];
        let fields = route.dialect.body.iter_mut().map(|(_, json)| json);
        for text in fields.chain(named).chain([&mut route.upstream_model]) {
            self.string(text);
        }
    }

    fn state(&self, state: &mut TurnState) {
        for learned in &mut state.model_patches {
            self.string(&mut learned.model);
        }
        for provider in &mut state.providers {
            self.key_origin(provider);
        }
        self.keys(&mut state.items);
        self.keys(&mut state.baggage);
        self.keys(&mut state.bytes_per_token);
        self.keys(&mut state.session_changes);
        for changed in state.session_changes.values_mut() {
            let tried = changed.experiments.texts_mut();
            for text in changed.left_out.texts_mut().chain(tried) {
                self.string(text);
            }
        }
        for blobs in state.baggage.values_mut() {
            let clean: Vec<String> = blobs.split(' ').map(|blob| self.blob(blob)).collect();
            *blobs = clean.join(" ");
        }
        for entry in state
            .hidden_rounds
            .iter_mut()
            .flat_map(|one| &mut one.entries)
        {
            match entry {
                HiddenEntry::Hidden(json) => *json = self.text(json).into(),
                HiddenEntry::Call(id) | HiddenEntry::Hosted(id) => self.string(id),
                HiddenEntry::Message(anchors) => {
                    for anchor in anchors {
                        self.string(anchor);
                    }
                }
                HiddenEntry::Source(source) => {
                    for text in source.texts_mut() {
                        self.string(text);
                    }
                }
                HiddenEntry::Reasoning => {}
            }
        }
        let tools = state.proxy_tools.iter_mut();
        let tools = tools.flat_map(|tool| [&mut tool.description, &mut tool.parameters]);
        let calls = state.tool_calls.iter_mut();
        let calls = calls.flat_map(|call| {
            let result = call.result.iter_mut();
            let texts = result.flat_map(|result| {
                let shown = result.item.iter_mut().flat_map(hosted_texts);
                let sources = result.sources.iter_mut();
                let sources = sources.flat_map(CitedSource::texts_mut);
                shown.chain(sources).chain([&mut result.text])
            });
            let shown = call.shown.iter_mut().flat_map(hosted_texts);
            shown.chain(texts).chain([&mut call.call_id])
        });
        let mcp = state.mcp.iter_mut().flat_map(|listing| {
            let servers = listing.servers.iter_mut();
            let servers = servers.flat_map(|it| {
                [&mut it.label, &mut it.tools]
                    .into_iter()
                    .chain(&mut it.error)
            });
            servers
                .chain(&mut listing.notice)
                .chain(&mut listing.left_out)
        });
        let calls = calls.chain(mcp);
        for (_, text) in state.image_texts.iter_mut() {
            *text = self.text(text).into();
        }
        let others = state.items.values_mut().chain(&mut state.moved_to);
        for text in others.chain(&mut state.tools).chain(tools).chain(calls) {
            self.string(text);
        }
    }

    /// Leaves only the name of a key file: folders are private.
    fn key_origin(&self, provider: &mut ProviderState) {
        match &mut provider.key_origin {
            Some(KeyOrigin::Environment(names)) => {
                for name in names {
                    self.string(name);
                }
            }
            Some(KeyOrigin::File(path)) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                *path = self.text(&name).into_owned().into();
            }
            Some(KeyOrigin::Command | KeyOrigin::Literal) | None => {}
        }
    }

    /// Redacts ids as they are redacted where a request mentions them.
    fn keys<V>(&self, by_id: &mut BTreeMap<String, V>) {
        let pairs = std::mem::take(by_id).into_iter();
        *by_id = pairs
            .map(|(id, value)| (self.text(&id).into_owned(), value))
            .collect();
    }
}

fn hosted_texts(item: &mut HostedItem) -> Vec<&mut String> {
    match item {
        HostedItem::WebSearchCall { action, results } => {
            [action].into_iter().chain(results).collect()
        }
        HostedItem::McpCall {
            server_label,
            name,
            arguments,
            output,
            error,
            approval_request_id: _,
        } => {
            let texts = [server_label, name, arguments].into_iter();
            let error = error.as_mut().map(McpCallError::text_mut);
            texts.chain(output).chain(error).collect()
        }
        HostedItem::McpListTools {
            server_label,
            tools,
            error,
        } => [server_label, tools].into_iter().chain(error).collect(),
        HostedItem::ToolSearchCall { paths, tools } => paths.iter_mut().chain([tools]).collect(),
    }
}

/// The artifact ids of the outputs that redaction changed. An id is a hash of its output: it lets a
/// reader check a guess of the secret.
fn ids_of_changed_outputs(turn: &BundleTurn, redacted: &BundleTurn) -> Vec<String> {
    let (Some(turn), Some(redacted)) = (source(turn), source(redacted)) else {
        return Vec::new();
    };
    let (Ok(turn), Ok(redacted)) = (turn.turn(), redacted.turn()) else {
        return Vec::new();
    };
    let pairs = turn.items.iter().zip(&redacted.items);
    let changed = pairs.filter_map(|(item, redacted)| {
        let (text, redacted) = (output::text(item)?, output::text(redacted)?);
        (text != redacted).then(|| output::artifact_id(&text))
    });
    changed.collect()
}

/// Names the descriptions of images, and those that are left out, by the keys that the images have
/// in the redacted turn, where a hash may stand in the place of each image.
fn name_images_anew(turn: &BundleTurn, redacted: &mut BundleTurn) {
    let state = &redacted.state_before;
    if state.image_texts.is_empty() && state.session_changes.is_empty() {
        return;
    }
    let keys = |turn: &BundleTurn| {
        let mut source = source(turn)?;
        if let Some(history) = &turn.state_before.history {
            source = source.with_history(history.items.clone());
        }
        let turn = source.turn().ok()?;
        let keys = turn.images().into_iter().map(|image| image.key);
        Some(keys.collect::<Vec<String>>())
    };
    let (Some(before), Some(after)) = (keys(turn), keys(redacted)) else {
        return;
    };
    for changed in redacted.state_before.session_changes.values_mut() {
        let tried = changed.experiments.texts_mut();
        for text in changed.left_out.texts_mut().chain(tried) {
            let place = before.iter().position(|key| key == text);
            if let Some(key) = place.and_then(|place| after.get(place)) {
                text.clone_from(key);
            }
        }
    }
    let texts = &mut redacted.state_before.image_texts;
    let pairs = before.iter().zip(after);
    let named: Vec<_> = pairs
        .filter_map(|(before, after)| Some((after, texts.remove(before)?)))
        .collect();
    for (key, text) in named {
        texts.insert(key, text);
    }
}

/// The client's request; `None` if it is not UTF-8.
fn source(turn: &BundleTurn) -> Option<TurnSource> {
    let body = String::from_utf8(turn.request.body.clone()).ok()?;
    let items = turn.state_before.items.iter();
    let items = items.map(|(id, json)| (id.clone(), json.clone().into()));
    Some(TurnSource::new(body).with_items(items.collect()))
}
