//! Redacts a whole turn. Every field is named, so that a new one is not forgotten.

use std::borrow::Cow;
use std::collections::BTreeSet;

use adapters::fault::Fault;
use adapters::hidden_rounds::{HiddenEntry, HiddenRounds};
use adapters::responses::assembler::HostedItem;
use registry::{RegistrySnapshot, RouteSnapshot};

use super::Scrubber;
use super::again::{Reencoded, Reencoder};
use super::ids::ChangedArtifactIds;
use crate::diagnostics::bundle::{
    BundleAttempt, BundleRequest, BundleResponse, BundleResponseHead, BundleTurn, OmittedPart,
};
use crate::turn::{RecordedToolCall, ToolResult, TurnState};

/// Maximum length of a chain of outputs that each mention the id of the one before.
const ID_ROUNDS: usize = 32;

impl Scrubber {
    /// Redacts a turn. A turn without secrets is returned unchanged.
    pub fn turn(&self, turn: &BundleTurn) -> BundleTurn {
        let new = self.scrubbed(turn.clone());
        let is_same = turn.request.body == new.request.body
            && turn.state_before.items == new.state_before.items
            && turn.state_before.baggage == new.state_before.baggage
            && turn.state_before.tools == new.state_before.tools
            && turn.state_before.hidden_rounds == new.state_before.hidden_rounds
            && turn.state_before.tool_calls == new.state_before.tool_calls;
        if is_same {
            return new;
        }
        self.again(turn, &new)
    }

    /// Replaces plan and upstream requests by those that follow from the redacted client
    /// request.
    fn again(&self, old: &BundleTurn, scrubbed: &BundleTurn) -> BundleTurn {
        let mut ids = ChangedArtifactIds::default();
        let mut new = scrubbed.clone();
        // An output can contain the id of another output, so a changed id can change
        // further ids. An output cannot contain its own id, so this ends.
        for _ in 0..ID_ROUNDS {
            let found = Reencoder::of(old, &new).and_then(|again| again.ids());
            let found = found.unwrap_or_default();
            if found == ids {
                break;
            }
            ids = found;
            new = renamed(&ids, scrubbed.clone());
        }
        let Some(again) = Reencoder::of(old, &new) else {
            return new;
        };
        let plan = again.plan();
        let made: Vec<Reencoded> = (0..old.attempts.len())
            .map(|index| again.request(index))
            .collect();
        if let Some(plan) = plan {
            new.plan = self.bytes(plan);
        }
        for (index, (attempt, made)) in new.attempts.iter_mut().zip(made).enumerate() {
            match made {
                Reencoded::Body(body, estimated_input) => {
                    attempt.body = self.bytes(body);
                    attempt.estimated_input = estimated_input;
                }
                Reencoded::Whole => {}
                Reencoded::Unknown => {
                    let what = format!("attempt {} request", index + 1);
                    let total = attempt.body.len() as u64;
                    attempt.body.clear();
                    match new.omitted.iter_mut().find(|one| one.what == what) {
                        Some(omitted) => omitted.kept = 0,
                        None => new.omitted.push(OmittedPart {
                            what,
                            total,
                            kept: 0,
                        }),
                    }
                }
            }
        }
        new
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
            plan,
        } = turn;
        let state = self.redact_state(state, fault.iter().chain(attempts_faults(&attempts)));
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

    fn redact_state<'f>(
        &self,
        state: TurnState,
        faults: impl Iterator<Item = &'f Fault>,
    ) -> TurnState {
        let mut state = state;
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
        // Only the first time: a later redaction may know other secrets.
        if state.stand_ins.is_empty() {
            let secrets = self.redactor.secrets().iter();
            state.stand_ins = secrets
                .map(|secret| self.string(secret.expose().to_owned()))
                .chain(self.stand_ins(faults))
                .collect();
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

    /// The placeholders of unknown secrets that a fault quotes. The client's response has
    /// `[redacted]` in their place, so a replay must hide them as well.
    fn stand_ins<'f>(&self, faults: impl Iterator<Item = &'f Fault>) -> BTreeSet<String> {
        let texts = faults.flat_map(|fault| {
            let short = [&fault.param, &fault.code].into_iter().flatten();
            let short = short.map(AsRef::as_ref).chain(fault.cause.as_deref());
            short.chain([fault.message.as_str()])
        });
        let fillers = texts.flat_map(|text| {
            let whole = 0..text.len();
            self.fill(text.into(), std::slice::from_ref(&whole), &[]).1
        });
        fillers
            .filter_map(|filler| String::from_utf8(filler).ok())
            .collect()
    }
}

/// Replaces changed artifact ids in all bodies and in the state of a turn.
fn renamed(ids: &ChangedArtifactIds, turn: BundleTurn) -> BundleTurn {
    let mut turn = turn;
    let bodies = [
        &mut turn.request.body,
        &mut turn.answer.body,
        &mut turn.plan,
    ];
    let attempts = turn.attempts.iter_mut();
    let attempts = attempts.flat_map(|attempt| [&mut attempt.body, &mut attempt.answer]);
    for body in bodies.into_iter().chain(attempts) {
        *body = ids.renamed(std::mem::take(body));
    }
    let state = &mut turn.state_before;
    let texts = state.items.values_mut().chain(state.baggage.values_mut());
    for text in texts.chain(&mut state.tools) {
        *text = ids.string(std::mem::take(text));
    }
    turn
}

fn attempts_faults(attempts: &[BundleAttempt]) -> impl Iterator<Item = &Fault> {
    attempts.iter().filter_map(|one| one.fault.as_ref())
}
