//! Redacts a whole turn. Every field is named, so that a new one is not forgotten.

use std::borrow::Cow;
use std::sync::Arc;

use adapters::fault::Fault;
use adapters::hidden_rounds::{HiddenEntry, HiddenRounds};
use adapters::plan::output;
use adapters::responses::assembler::HostedItem;
use adapters::responses::request::TurnSource;
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
    /// Redacts the inputs of a turn: what the client, the providers and the configuration put into
    /// it. What the turn made of them is redacted as well, but then it need not follow from the
    /// redacted inputs any more: [`remake`](crate::diagnostics::replay::remake) makes it again.
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

    fn scrubbed(&self, turn: BundleTurn) -> BundleTurn {
        let BundleTurn {
            request_id,
            version,
            config_digest,
            began_ms,
            took_us,
            outcome,
            fault,
            notes,
            usage,
            ending_us,
            request,
            answer,
            attempts,
            settings,
            heartbeat_ms,
            commit_after_ms,
            state_before: state,
            clock,
            random,
            omitted,
            rerun,
            plan,
        } = turn;
        let state = self.redact_state(state);
        let notes = notes.into_iter();
        BundleTurn {
            request_id,
            version,
            config_digest,
            began_ms,
            took_us,
            outcome,
            fault: fault.map(|fault| self.fault(fault)),
            notes: notes
                .map(|(code, detail)| (code, self.string(detail)))
                .collect(),
            usage,
            ending_us,
            request: self.request(request),
            answer: self.answer(answer),
            attempts: attempts.into_iter().map(|one| self.attempt(one)).collect(),
            settings: self.settings(settings),
            heartbeat_ms,
            commit_after_ms,
            state_before: state,
            clock,
            random,
            omitted,
            rerun,
            plan: self.bytes(plan),
        }
    }

    fn request(&self, request: BundleRequest) -> BundleRequest {
        let BundleRequest {
            path,
            mut headers,
            body,
        } = request;
        self.headers(&mut headers);
        BundleRequest {
            path: self.url(&path),
            headers,
            body: self.bytes(body),
        }
    }

    fn answer(&self, answer: BundleResponse) -> BundleResponse {
        let BundleResponse {
            status,
            mut headers,
            pieces,
            body,
        } = answer;
        self.headers(&mut headers);
        BundleResponse {
            status,
            headers,
            pieces,
            body: self.bytes(body),
        }
    }

    fn attempt(&self, attempt: BundleAttempt) -> BundleAttempt {
        let mut headers = attempt.headers;
        self.headers(&mut headers);
        BundleAttempt {
            route: self.string(attempt.route),
            url: self.url(&attempt.url),
            headers,
            head: attempt.head.map(|head| self.head(head)),
            fault: attempt.fault.map(|fault| self.fault(fault)),
            body: self.bytes(attempt.body),
            answer: self.bytes(attempt.answer),
            at_us: attempt.at_us,
            end_us: attempt.end_us,
            key: attempt.key,
            window: attempt.window,
            bytes_per_token: attempt.bytes_per_token,
            estimated_input: attempt.estimated_input,
            pieces: attempt.pieces,
            ended: attempt.ended,
        }
    }

    fn head(&self, head: BundleResponseHead) -> BundleResponseHead {
        let BundleResponseHead {
            at_us,
            status,
            mut headers,
        } = head;
        self.headers(&mut headers);
        BundleResponseHead {
            at_us,
            status,
            headers,
        }
    }

    fn fault(&self, fault: Fault) -> Fault {
        let Fault {
            kind,
            retry,
            message,
            param,
            code,
            upstream_status,
            cause,
            patch,
        } = fault;
        let short = |text: Cow<'static, str>| match self.text(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(clean) => Cow::Owned(clean),
        };
        Fault {
            kind,
            retry,
            message: self.string(message),
            param: param.map(short),
            code: code.map(short),
            upstream_status,
            cause: cause.map(|cause| self.string(cause.into()).into()),
            patch,
        }
    }

    fn settings(&self, settings: RegistrySnapshot) -> RegistrySnapshot {
        let RegistrySnapshot {
            asked,
            default,
            routes,
            unresolved,
            open,
        } = settings;
        RegistrySnapshot {
            asked: self.string(asked),
            default,
            routes: routes.into_iter().map(|route| self.route(route)).collect(),
            unresolved,
            open,
        }
    }

    /// Redacts the fields that a user may have put a secret into; the rest comes from the
    /// registry.
    fn route(&self, route: RouteSnapshot) -> RouteSnapshot {
        let mut route = route;
        route.base_url = self.url(&route.base_url);
        route.upstream_model = self.string(route.upstream_model);
        route.model.id = self.string(route.model.id);
        route.model.name = self.string(route.model.name);
        route.model.description = self.string(route.model.description);
        for (_, json) in &mut route.dialect.body {
            *json = self.string(std::mem::take(json));
        }
        self.headers(&mut route.headers);
        self.query(&mut route.query);
        route
    }

    fn redact_state(&self, mut state: TurnState) -> TurnState {
        for json in state.items.values_mut() {
            *json = self.string(std::mem::take(json));
        }
        for blobs in state.baggage.values_mut() {
            let clean: Vec<String> = blobs.split(' ').map(|blob| self.blob(blob)).collect();
            *blobs = clean.join(" ");
        }
        state.moved_to = state.moved_to.map(|route| self.string(route));
        state.tools = state.tools.map(|tools| self.string(tools));
        for rounds in &mut state.hidden_rounds {
            self.hidden_rounds(rounds);
        }
        for tool in &mut state.proxy_tools {
            tool.description = self.string(std::mem::take(&mut tool.description));
            tool.parameters = self.string(std::mem::take(&mut tool.parameters));
        }
        for call in &mut state.tool_calls {
            self.tool_call(call);
        }
        state
    }

    fn hidden_rounds(&self, rounds: &mut HiddenRounds) {
        for entry in &mut rounds.entries {
            match entry {
                HiddenEntry::Hidden(json) => *json = self.string(json.to_string()).into(),
                HiddenEntry::Message | HiddenEntry::Reasoning | HiddenEntry::Call(_) => {}
            }
        }
    }

    fn tool_call(&self, call: &mut RecordedToolCall) {
        let RecordedToolCall {
            call_id: _,
            shown,
            took_us: _,
            result,
        } = call;
        if let Some(result) = result {
            let ToolResult {
                text,
                failed: _,
                item,
            } = result;
            *text = self.string(std::mem::take(text));
            if let Some(item) = item {
                self.hosted_item(item);
            }
        }
        if let Some(item) = shown {
            self.hosted_item(item);
        }
    }

    fn hosted_item(&self, item: &mut HostedItem) {
        let redact = |text: &mut String| *text = self.string(std::mem::take(text));
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
