//! The messages that a client sends over a WebSocket.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::request::TurnSource;
use crate::fault::Fault;
use crate::json;
use crate::members::{Members, rewrite};

/// The longest name of a lane, in bytes.
const MAX_LANE_NAME: usize = 256;
/// The members of `response.create` that are about the transport. Everything is streamed, so
/// `stream` and its options say nothing here.
const TRANSPORT: [&str; 5] = ["type", "stream_id", "generate", "stream", "stream_options"];
/// The header in which Codex describes a turn. `client_metadata` in its bodies has a member of the
/// same name and value.
pub const CODEX_METADATA: &str = "x-codex-turn-metadata";

/// A message of a client.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// `response.create`: a turn.
    Create(Box<CreateEvent>),
    /// `response.steer`: input for a response that is being made.
    Steer(SteerEvent),
}

/// A request for a response.
#[derive(Debug, PartialEq, Eq)]
pub struct CreateEvent {
    /// The lane; `None` for the one without a name.
    pub stream_id: Option<String>,
    /// False prepares a response without asking a model.
    pub generate: bool,
    /// The response that it continues.
    pub continues: Option<String>,
    /// What Codex says about the turn: the value of its header.
    pub codex_metadata: Option<String>,
    /// The body of the `POST` that asks for the same as a stream.
    pub body: String,
}

/// Input for a response that is being made.
#[derive(Debug, PartialEq, Eq)]
pub struct SteerEvent {
    /// The id of the response, as JSON.
    pub previous_response_id: String,
    /// The input, as JSON.
    pub input: String,
}

/// A message that cannot be served.
#[derive(Debug, PartialEq, Eq)]
pub struct RefusedEvent {
    /// The lane that it is for, if that can be read.
    pub stream_id: Option<String>,
    /// Why.
    pub fault: Fault,
}

impl RefusedEvent {
    fn new(stream_id: Option<String>, fault: Fault) -> Box<Self> {
        Box::new(Self { stream_id, fault })
    }
}

impl ClientEvent {
    /// Reads a message.
    pub fn read(text: &str) -> Result<Self, Box<RefusedEvent>> {
        let Some(members) = Members::read(text) else {
            return Err(RefusedEvent::new(None, unreadable(text)));
        };
        let stream_id = lane_name(members.get("stream_id"));
        let stream_id = stream_id.map_err(|fault| RefusedEvent::new(None, fault))?;
        match members.text("type").as_deref() {
            Some("response.create") => {
                let created = create(&members, stream_id.clone());
                let created = created.map_err(|fault| RefusedEvent::new(stream_id, fault))?;
                Ok(Self::Create(Box::new(created)))
            }
            Some("response.steer") => {
                let json = |name| members.get(name).map_or("null", RawValue::get).to_owned();
                Ok(Self::Steer(SteerEvent {
                    previous_response_id: json("previous_response_id"),
                    input: json("input"),
                }))
            }
            _ => {
                let message =
                    "The 'type' of a message must be 'response.create' or 'response.steer'.";
                let fault = Fault::invalid("type", message).with_code("invalid_event_type");
                Err(RefusedEvent::new(stream_id, fault))
            }
        }
    }
}

fn create(members: &Members<'_>, stream_id: Option<String>) -> Result<CreateEvent, Fault> {
    let generate = match members.present("generate").map(RawValue::get) {
        None | Some("true") => true,
        Some("false") => false,
        Some(_) => {
            let message = "The parameter 'generate' must be true or false.";
            return Err(Fault::invalid("generate", message));
        }
    };
    if members.get("background").map(RawValue::get) == Some("true") {
        let message = "A response over a WebSocket does not run in the background: leave out 'background', or use POST.";
        return Err(Fault::invalid("background", message).with_code("unsupported_parameter"));
    }
    let metadata = members.present("client_metadata").map(RawValue::get);
    let metadata = metadata.and_then(Members::read);
    let codex_metadata = metadata.and_then(|it| it.text(CODEX_METADATA).map(Cow::into_owned));
    let changes = TRANSPORT.map(|name| match name {
        "stream" => (name, Some("true".to_owned())),
        _ => (name, None),
    });
    let mut body = Vec::new();
    rewrite(&mut body, members, &changes);
    Ok(CreateEvent {
        stream_id,
        generate,
        continues: members.text("previous_response_id").map(Cow::into_owned),
        codex_metadata,
        body: String::from_utf8(body).unwrap_or_default(),
    })
}

/// The name of a lane. Such a name needs no escapes.
fn lane_name(name: Option<&RawValue>) -> Result<Option<String>, Fault> {
    let Some(name) = name.filter(|name| name.get() != "null") else {
        return Ok(None);
    };
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let text = json::unquote(name.get()).filter(|text| {
        !text.is_empty() && text.len() <= MAX_LANE_NAME && text.bytes().all(is_allowed)
    });
    text.map(|text| Some(text.to_owned())).ok_or_else(|| {
        let message = "The parameter 'stream_id' must be a string of 1 to 256 letters, digits, '_', '-' and '.'; leave it out for the lane without a name.";
        Fault::invalid("stream_id", message).with_code("invalid_stream_id")
    })
}

/// The fault of a message that is no JSON object, the same as for such a body.
fn unreadable(text: &str) -> Fault {
    let source = TurnSource::new(text.to_owned());
    match source.turn() {
        Err(fault) => fault,
        Ok(_) => Fault::invalid("type", "A message must be one JSON object."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(text: &str) -> CreateEvent {
        match ClientEvent::read(text) {
            Ok(ClientEvent::Create(created)) => *created,
            other => panic!("{other:?}"),
        }
    }

    fn refused(text: &str) -> (Option<String>, String) {
        let refused = ClientEvent::read(text).unwrap_err();
        let code = refused.fault.code().unwrap_or_default().to_owned();
        (refused.stream_id, code)
    }

    #[test]
    fn a_message_becomes_the_body_of_a_streamed_request() {
        let plain =
            created(r#"{"type":"response.create","model":"m","input":[ 1 ],"store":false}"#);
        assert_eq!(
            plain.body,
            r#"{"model":"m","input":[ 1 ],"store":false,"stream":true}"#
        );
        assert!(plain.generate && plain.stream_id.is_none() && plain.continues.is_none());
        let full = created(
            r#"{"stream":false,"stream_options":{},"type":"response.create","stream_id":"a.b-c_1","generate":false,"model":"m","previous_response_id":"resp_1","client_metadata":{"x-codex-turn-metadata":"{\"turn_id\":\"t\"}"}}"#,
        );
        assert_eq!(
            full.body,
            r#"{"stream":true,"model":"m","previous_response_id":"resp_1","client_metadata":{"x-codex-turn-metadata":"{\"turn_id\":\"t\"}"}}"#
        );
        assert_eq!(full.stream_id.as_deref(), Some("a.b-c_1"));
        assert_eq!(full.continues.as_deref(), Some("resp_1"));
        assert_eq!(full.codex_metadata.as_deref(), Some(r#"{"turn_id":"t"}"#));
        assert!(!full.generate);
    }

    #[test]
    fn what_cannot_be_served_is_refused_with_its_lane() {
        for (text, lane, code) in [
            ("no JSON", None, "invalid_json"),
            (
                r#"{"type":"session.update","stream_id":"a"}"#,
                Some("a"),
                "invalid_event_type",
            ),
            (r#"{"model":"m"}"#, None, "invalid_event_type"),
            (
                r#"{"type":"response.create","stream_id":""}"#,
                None,
                "invalid_stream_id",
            ),
            (
                r#"{"type":"response.create","stream_id":"a b"}"#,
                None,
                "invalid_stream_id",
            ),
            (
                r#"{"type":"response.create","stream_id":7}"#,
                None,
                "invalid_stream_id",
            ),
            (
                r#"{"type":"response.create","stream_id":"a","background":true}"#,
                Some("a"),
                "unsupported_parameter",
            ),
        ] {
            assert_eq!(
                refused(text),
                (lane.map(str::to_owned), code.to_owned()),
                "{text}"
            );
        }
        let long = "a".repeat(MAX_LANE_NAME);
        let named = |name: &str| format!(r#"{{"type":"response.create","stream_id":"{name}"}}"#);
        assert_eq!(created(&named(&long)).stream_id, Some(long.clone()));
        assert_eq!(refused(&named(&(long + "a"))).1, "invalid_stream_id");
    }
}
