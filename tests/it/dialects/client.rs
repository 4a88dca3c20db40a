//! Runs the bytes of an upstream answer through the adapter as a client would receive them.
use adapters::fault::Fault;
use adapters::responses::request::TurnSource;
use kit::drive;
use kit::strict::{self, CheckedStream};
use registry::WireQuirks;
use serde_json::json;

/// The result that a client receives.
#[derive(Debug)]
pub enum ClientResult {
    /// A valid stream; the unstreamed response has the same content.
    Answer(Box<CheckedStream>),
    /// A fault before the first event.
    Fault(Box<Fault>),
}

/// Reads an answer that arrives in pieces of these sizes, which repeat. Panics if the stream is
/// invalid or differs from the unstreamed response.
pub fn read_as_client(
    bytes: &[u8],
    sizes: &[usize],
    quirks: &WireQuirks,
    codex: bool,
) -> ClientResult {
    let tool =
        |name: &str| json!({"type": "function", "name": name, "parameters": {"type": "object"}});
    let body = json!({
        "model": "m", "input": "go", "stream": true, "tools": [tool("look"), tool("take")],
    });
    let source = TurnSource::new(body.to_string());
    let turn = source.turn().unwrap();
    let settings = || drive::settings(&turn, codex, true);
    let events = match drive::stream(settings(), quirks, cut(bytes, sizes)) {
        Ok(events) => events,
        Err(fault) => return ClientResult::Fault(Box::new(fault)),
    };
    let stream = if codex {
        strict::check_for_codex_or_panic(&events)
    } else {
        strict::check_or_panic(&events)
    };
    match drive::whole(settings(), quirks, [bytes]) {
        Ok(whole) => {
            let whole = strict::check_response_or_panic(&whole);
            strict::same_output(&stream.response, &whole).unwrap();
        }
        Err(_) => assert_eq!(stream.terminal, "response.failed"),
    }
    ClientResult::Answer(Box::new(stream))
}

fn cut<'b>(mut bytes: &'b [u8], sizes: &[usize]) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (piece, rest) = bytes.split_at((*size).clamp(1, bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}
