//! Redacts a whole turn. Every field is named, so that a new one is not forgotten.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use adapters::fault::Fault;
use adapters::hidden_rounds::{HiddenEntry, HiddenRounds};
use adapters::plan::output;
use adapters::responses::assembler::HostedItem;
use adapters::responses::request::TurnSource;
use adapters::tools::ProxyTool;
use registry::{RegistrySnapshot, RouteSnapshot};

use super::Scrubber;
use crate::diagnostics::bundle::{
    BundleAttempt, BundleRequest, BundleResponse, BundleResponseHead, BundleTurn,
};
use crate::secrets::Secret;
use crate::turn::{RecordedToolCall, ToolResult, TurnState};

/// How many outputs may name each other in a row.
const ID_ROUNDS: usize = 8;

impl Scrubber {
    /// Redacts a turn. What the proxy made of the client's request and of the providers' answers
    /// is redacted as well, but may differ from what it would make of the redacted ones: an
    /// excerpt can cut a secret in half. A replay of the redacted turn makes it again.
    pub fn turn(&self, turn: &BundleTurn) -> BundleTurn {
        let mut redacted = self.scrubbed(turn.clone());
        let mut hidden = Vec::new();
        // An output can name another output by its id, so a changed id can change further ones.
        for _ in 0..ID_ROUNDS {
            let ids = ids_of_changed_outputs(turn, &redacted);
            if ids == hidden {
                break;
            }
            let secrets: Vec<Secret> = ids.iter().filter_map(|id| Secret::new(id)).collect();
            let scrubber = Self::new(self.redactor.and(&secrets), self.keep);
            redacted = scrubber.scrubbed(turn.clone());
            hidden = ids;
        }
        redacted
    }

    fn scrubbed(&self, mut turn: BundleTurn) -> BundleTurn {
        let BundleTurn {
            request_id: _,
            version: _,
            config_digest: _,
            began_ms: _,
            took_us: _,
            outcome: _,
            fault,
            notes,
            usage: _,
            ending_us: _,
            request,
            answer,
            attempts,
            settings,
            heartbeat_ms: _,
            commit_after_ms: _,
            state_before,
            clock: _,
            random: _,
            omitted: _,
            plan,
        } = &mut turn;
        self.request(request);
        self.state(state_before);
        self.settings(settings);
        for attempt in attempts {
            self.attempt(attempt);
        }
        self.answer(answer);
        self.body(plan, &mut Vec::new());
        for (_, detail) in notes {
            self.string(detail);
        }
        self.fault(fault);
        turn.correct_omitted();
        turn
    }

    fn request(&self, request: &mut BundleRequest) {
        let BundleRequest {
            path,
            headers,
            body,
        } = request;
        self.url(path);
        self.headers(headers);
        self.body(body, &mut Vec::new());
    }

    fn answer(&self, answer: &mut BundleResponse) {
        let BundleResponse {
            status: _,
            headers,
            pieces,
            body,
        } = answer;
        self.headers(headers);
        self.body(body, pieces);
    }

    fn attempt(&self, attempt: &mut BundleAttempt) {
        let BundleAttempt {
            at_us: _,
            end_us: _,
            route,
            url,
            headers,
            key: _,
            window: _,
            bytes_per_token: _,
            estimated_input: _,
            head,
            pieces,
            ended: _,
            fault,
            body,
            answer,
        } = attempt;
        self.string(route);
        self.url(url);
        self.headers(headers);
        if let Some(head) = head {
            let BundleResponseHead {
                at_us: _,
                status: _,
                headers,
            } = head;
            self.headers(headers);
        }
        self.body(body, &mut Vec::new());
        self.body(answer, pieces);
        self.fault(fault);
    }

    fn fault(&self, fault: &mut Option<Fault>) {
        let Some(fault) = fault else { return };
        let Fault {
            kind: _,
            retry: _,
            message,
            param,
            code,
            upstream_status: _,
            cause,
            patch: _,
        } = fault;
        self.string(message);
        for text in [param, code].into_iter().flatten() {
            if let Cow::Owned(clean) = self.text(text) {
                *text = clean.into();
            }
        }
        if let Some(text) = cause
            && let Cow::Owned(clean) = self.text(text)
        {
            *text = clean.into();
        }
    }

    fn settings(&self, settings: &mut RegistrySnapshot) {
        let RegistrySnapshot {
            asked,
            default: _,
            routes,
            unresolved: _,
            open: _,
        } = settings;
        self.string(asked);
        for route in routes {
            self.route(route);
        }
    }

    /// Redacts the fields that a user may have put a secret into; the rest comes from the
    /// registry.
    fn route(&self, route: &mut RouteSnapshot) {
        self.url(&mut route.base_url);
        let model = &mut route.model;
        for text in [
            &mut route.upstream_model,
            &mut model.id,
            &mut model.name,
            &mut model.description,
        ] {
            self.string(text);
        }
        for (_, json) in &mut route.dialect.body {
            self.string(json);
        }
        self.headers(&mut route.headers);
        self.query(&mut route.query);
    }

    fn state(&self, state: &mut TurnState) {
        let TurnState {
            model_patches: _,
            items,
            baggage,
            moved_to,
            providers: _,
            tools,
            calibration: _,
            hidden_rounds,
            proxy_tools,
            tool_calls,
            outputs: _,
            retention: _,
        } = state;
        self.keys(items);
        self.keys(baggage);
        for json in items.values_mut() {
            self.string(json);
        }
        for blobs in baggage.values_mut() {
            let clean: Vec<String> = blobs.split(' ').map(|blob| self.blob(blob)).collect();
            *blobs = clean.join(" ");
        }
        for text in [moved_to, tools].into_iter().flatten() {
            self.string(text);
        }
        for HiddenRounds { entries } in hidden_rounds {
            for entry in entries {
                match entry {
                    HiddenEntry::Hidden(json) => *json = self.text(json).into(),
                    HiddenEntry::Call(id) => self.string(id),
                    HiddenEntry::Message | HiddenEntry::Reasoning => {}
                }
            }
        }
        for tool in proxy_tools {
            let ProxyTool {
                name: _,
                description,
                parameters,
            } = tool;
            self.string(description);
            self.string(parameters);
        }
        for call in tool_calls {
            self.tool_call(call);
        }
    }

    /// Redacts ids as they are redacted where a request mentions them.
    fn keys(&self, by_id: &mut BTreeMap<String, String>) {
        let pairs = std::mem::take(by_id).into_iter();
        *by_id = pairs
            .map(|(id, value)| (self.text(&id).into_owned(), value))
            .collect();
    }

    fn tool_call(&self, call: &mut RecordedToolCall) {
        let RecordedToolCall {
            call_id,
            shown,
            took_us: _,
            result,
        } = call;
        self.string(call_id);
        if let Some(item) = shown {
            self.hosted_item(item);
        }
        if let Some(ToolResult {
            text,
            failed: _,
            item,
        }) = result
        {
            self.string(text);
            if let Some(item) = item {
                self.hosted_item(item);
            }
        }
    }

    fn hosted_item(&self, item: &mut HostedItem) {
        let redact = |text: &mut String| self.string(text);
        match item {
            HostedItem::WebSearchCall { action } => redact(action),
            HostedItem::McpCall {
                server_label,
                name,
                arguments,
                output,
                error,
            } => {
                [server_label, name, arguments].into_iter().for_each(redact);
                [output, error].into_iter().flatten().for_each(redact);
            }
            HostedItem::McpListTools {
                server_label,
                tools,
                error,
            } => {
                [server_label, tools].into_iter().for_each(redact);
                error.iter_mut().for_each(redact);
            }
        }
    }
}

/// The artifact ids of the outputs that redaction changed. An id is a hash of its output: whoever
/// has it can check a guess of the secret.
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

/// The client's request; `None` if it is not UTF-8.
fn source(turn: &BundleTurn) -> Option<TurnSource> {
    let body = String::from_utf8(turn.request.body.clone()).ok()?;
    let items = turn.state_before.items.iter();
    let items = items.map(|(id, json)| (id.clone(), Arc::from(json.as_str())));
    Some(TurnSource::new(body).with_items(items.collect()))
}
