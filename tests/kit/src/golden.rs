//! Golden cases: one turn against an upstream, and its expected results. The tests of the
//! adapters check the cases of this repository with this code, and `respondent-kit to-fixture`
//! writes new ones with it.
//!
//! A case is a folder. These files are the input:
//!
//! | file | content |
//! |---|---|
//! | [`REQUEST`] | the client's request |
//! | [`SETTINGS`] | optional: [`CaseSettings`] as TOML |
//! | [`BAGGAGE`] | optional: sealed baggage of earlier answers, by call id |
//! | [`ANSWER`] | optional: the upstream's answer |
//! | [`REFUSAL`] | optional, instead of the answer: an error reply, see [`UpstreamRefusal::parse`] |
//!
//! The files of [`EXPECTED`] are the results, see [`GoldenCase::expected`].

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use adapters::encoded::Encoded;
use adapters::fault::{Fault, Retry};
use adapters::plan::{Bounds, plan};
use adapters::provider_error;
use adapters::responses::request::TurnSource;
use adapters::tools::ProxyTool;
use adapters::turn::Turn;
use adapters::wire::{self, EncodeOptions, encode};
use registry::{Model, Provider, WireQuirks};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::drive::{self, AnswerSetup};

/// File with the client's request.
pub const REQUEST: &str = "request.json";
/// File with the [`CaseSettings`].
pub const SETTINGS: &str = "case.toml";
/// File with the baggage of earlier answers.
pub const BAGGAGE: &str = "baggage.json";
/// File with the upstream's answer.
pub const ANSWER: &str = "upstream.sse";
/// File with the upstream's error reply.
pub const REFUSAL: &str = "upstream.refusal";

/// The files with the expected results:
///
/// | file | content |
/// |---|---|
/// | `expect.request.json` | the upstream's request, byte for byte |
/// | `expect.fault.json` | instead of it, where we refuse the request: the error body |
/// | `expect.notes` | the notes of the encoder, one a line |
/// | `expect.sse` | our events for the answer, with a fixed clock and response id |
/// | `expect.refusal.json` | instead of them, where the upstream refuses: the fault |
pub const EXPECTED: [&str; 5] = [
    "expect.request.json",
    "expect.fault.json",
    "expect.notes",
    "expect.sse",
    "expect.refusal.json",
];

/// Provider and model of a case. `O` is a TOML table with settings that are laid over the
/// provider's file.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CaseSettings<O> {
    /// An embedded provider, or any other name for the generic one.
    #[serde(default = "generic", skip_serializing_if = "is_generic")]
    pub provider: String,
    /// The provider's name of the model, if it differs from the one in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The origin, as `provider/model`, whose reasoning may be sent back; `case/` and the model
    /// if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The client is Codex.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub codex: bool,
    /// The functions of the proxy that stand for hosted tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proxy_tools: Vec<ProxyTool>,
    /// Settings that are laid over the provider's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<O>,
}

fn generic() -> String {
    "generic".to_owned()
}

fn is_generic(provider: &String) -> bool {
    *provider == generic()
}

impl<O> Default for CaseSettings<O> {
    fn default() -> Self {
        Self {
            provider: generic(),
            model: None,
            origin: None,
            codex: false,
            proxy_tools: Vec::new(),
            over: None,
        }
    }
}

/// The input of a case.
#[derive(Clone)]
pub struct GoldenCase<O> {
    /// The client's request.
    pub request: String,
    /// Provider and model.
    pub settings: CaseSettings<O>,
    /// The provider that `settings` describe.
    pub provider: Provider,
    /// Sealed baggage of earlier answers, by call id.
    pub baggage: HashMap<String, String>,
    /// The reply of the upstream, if the case has one.
    pub upstream: Option<UpstreamReply>,
}

/// The reply of an upstream.
#[derive(Clone)]
pub enum UpstreamReply {
    /// The body of an answer.
    Answer(Vec<u8>),
    /// An error reply.
    Refusal(UpstreamRefusal),
}

/// An error reply of an upstream. In a file: the status in the first line, then headers as
/// `name: value`, an empty line, and the body with an additional line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamRefusal {
    /// The status, other than 2xx.
    pub status: u16,
    /// Names, in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl UpstreamRefusal {
    /// Parses the file; `None` if it is malformed.
    pub fn parse(file: &[u8]) -> Option<Self> {
        let mut rest = file;
        let mut line = || {
            let end = rest.iter().position(|byte| *byte == b'\n')?;
            let (line, behind) = rest.split_at_checked(end)?;
            rest = behind.get(1..)?;
            std::str::from_utf8(line).ok()
        };
        let status = line()?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            match line()? {
                "" => break,
                header => {
                    let (name, value) = header.split_once(": ")?;
                    headers.push((name.to_owned(), value.to_owned()));
                }
            }
        }
        Some(Self {
            status,
            headers,
            body: rest.strip_suffix(b"\n").unwrap_or(rest).to_vec(),
        })
    }

    /// The content of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut head = format!("{}\n", self.status);
        for (name, value) in &self.headers {
            head.extend([name, ": ", value, "\n"]);
        }
        let mut file = (head + "\n").into_bytes();
        file.extend_from_slice(&self.body);
        file.push(b'\n');
        file
    }

    /// The pause before a retry that the headers ask for, at this time.
    pub fn retry_delay(&self, now: SystemTime) -> Option<Duration> {
        let header = |wanted: &str| {
            let (_, value) = self.headers.iter().find(|(name, _)| name == wanted)?;
            Some(value.as_str())
        };
        provider_error::delay::from_headers(header, now)
    }

    /// The fault that the adapters make of it.
    pub fn fault(&self) -> Fault {
        let (quirks, wait) = (WireQuirks::default(), self.retry_delay(now()));
        wire::error(&quirks, self.status, wait, &self.body)
    }
}

/// The time at which all cases run.
pub fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(drive::NOW)
}

impl<O> GoldenCase<O> {
    /// The expected content of each file of [`EXPECTED`], which ends with one line end; `None`
    /// if the file must not exist.
    pub fn expected(&self) -> [(&'static str, Option<String>); EXPECTED.len()] {
        let mut fault = None;
        let mut request = None;
        let mut notes = String::new();
        match self.encode() {
            Ok(encoded) => {
                for note in encoded.notes.iter() {
                    notes.extend([note.code, ": ", &note.detail, "\n"]);
                }
                request = Some(to_text(&encoded.body));
            }
            Err(refused) => fault = Some(to_text(&refused.body())),
        }
        let (mut answer, mut refusal) = (None, None);
        match &self.upstream {
            None => {}
            Some(UpstreamReply::Answer(bytes)) => match self.stream([bytes.as_slice()]) {
                Ok(events) => answer = Some(events),
                Err(fault) => refusal = Some(describe_fault(&fault)),
            },
            Some(UpstreamReply::Refusal(reply)) => refusal = Some(describe_fault(&reply.fault())),
        }
        let notes = (!notes.is_empty()).then_some(notes);
        let [one, two, three, four, five] = EXPECTED;
        [
            (one, request),
            (two, fault),
            (three, notes),
            (four, answer),
            (five, refusal),
        ]
        .map(|(name, text)| (name, text.map(|text| with_line_end(&text))))
    }

    /// The request to the upstream.
    pub fn encode(&self) -> Result<Encoded, Fault> {
        let source = self.source();
        let turn = source.turn()?;
        let name = self.model(&turn);
        let unlisted = Model::unlisted(name);
        let model = self.provider.model(name).map_or(&unlisted, |model| model);
        let origin = match &self.settings.origin {
            Some(origin) => origin.clone(),
            None => format!("case/{name}"),
        };
        let options = EncodeOptions {
            dialect: self.provider.dialect_for(name),
            model,
            upstream_model: name,
            origin: &origin,
            known_baggage: Some(&self.baggage),
            left_out: None,
        };
        encode(&turn, &plan(&turn, &Bounds::none()), &options).map(|request| request.encoded)
    }

    /// Our stream for an answer that arrives in these pieces, or the fault before its first event.
    pub fn stream<'c>(&self, chunks: impl IntoIterator<Item = &'c [u8]>) -> Result<String, Fault> {
        self.read_answer(|settings, quirks| drive::stream(settings, quirks, chunks))
    }

    /// The response for an answer, without a stream, or the fault.
    pub fn whole(&self, answer: &[u8]) -> Result<String, Fault> {
        self.read_answer(|settings, quirks| drive::whole(settings, quirks, [answer]))
    }

    fn read_answer<T>(
        &self,
        read: impl FnOnce(AnswerSetup, &WireQuirks) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let source = self.source();
        let turn = source.turn()?;
        let name = self.model(&turn);
        let quirks = &self.provider.dialect_for(name).quirks;
        let unlisted = Model::unlisted(name);
        let model = self.provider.model(name).map_or(&unlisted, |model| model);
        let seals = turn.controls.encrypted_reasoning || quirks.requires_reasoning();
        read(
            drive::settings_for(&turn, self.settings.codex, seals, (quirks, model)),
            quirks,
        )
    }

    fn source(&self) -> TurnSource {
        let tools = self.settings.proxy_tools.clone();
        TurnSource::new(self.request.clone()).with_proxy_tools(tools)
    }

    fn model<'t>(&'t self, turn: &'t Turn<'_>) -> &'t str {
        self.settings.model.as_deref().unwrap_or(&turn.model)
    }
}

/// A fault as in `expect.refusal.json`: the statuses for Codex and for other clients, the pause
/// before a retry in milliseconds, and `patch` as text.
pub fn describe_fault(fault: &Fault) -> String {
    let retry = match fault.retry {
        Retry::Never => "never".to_owned(),
        Retry::Soon => "soon".to_owned(),
        Retry::After(pause) => format!("after {} ms", pause.as_millis()),
    };
    let fault = json!({
        "kind": fault.kind.name(),
        "message": fault.message,
        "status": {"codex": fault.status(true), "others": fault.status(false)},
        "code": fault.code(),
        "param": fault.param,
        "retry": retry,
        "patch": fault.patch.map(|patch| patch.to_string()),
    });
    format!("{fault:#}")
}

/// The text with exactly one line end.
fn with_line_end(text: &str) -> String {
    format!("{}\n", text.trim_end_matches('\n'))
}

fn to_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
