//! What a client gets of the bytes of an upstream.
use adapters::fault::Fault;
use adapters::responses::request::TurnSource;
use kit::strict::{self, CheckedStream};
use registry::Quirks;
use serde_json::json;

use super::drive;

/// What a client gets.
#[derive(Debug)]
pub enum Reading {
    /// A stream that kept every rule, and the same without events.
    Answer(Box<CheckedStream>),
    /// A fault before the first event.
    Fault(Box<Fault>),
}

/// Reads an answer that comes in pieces of these sizes, over and over.
pub fn read(bytes: &[u8], sizes: &[usize], quirks: &Quirks, codex: bool) -> Reading {
    let tool =
        |name: &str| json!({"type": "function", "name": name, "parameters": {"type": "object"}});
    let body = json!({
        "model": "m", "input": "go", "stream": true, "tools": [tool("look"), tool("take")],
    });
    let source = TurnSource::new(body.to_string());
    let turn = source.turn().unwrap();
    let settings = || drive::settings(&turn, codex, true);
    let sent = match drive::stream(settings(), quirks, cut(bytes, sizes)) {
        Ok(sent) => sent,
        Err(fault) => return Reading::Fault(Box::new(fault)),
    };
    let stream = if codex {
        strict::check_for_codex_or_panic(&sent)
    } else {
        strict::check_or_panic(&sent)
    };
    match drive::whole(settings(), quirks, [bytes]) {
        Ok(whole) => {
            let whole = strict::check_response_or_panic(&whole);
            strict::same_output(&stream.response, &whole).unwrap();
        }
        Err(_) => assert_eq!(stream.terminal, "response.failed"),
    }
    Reading::Answer(Box::new(stream))
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
