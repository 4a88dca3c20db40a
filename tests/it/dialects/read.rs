//! From the bytes of an upstream to what a client gets, without sockets.
use adapters::chat::reader::Reader;
use adapters::event::Event;
use adapters::fault::Fault;
use adapters::responses::assembler::{Assembler, Settings};
use adapters::responses::envelope::Envelope;
use adapters::responses::frames::Frames;
use adapters::responses::request::Source;
use kit::strict::{self, Stream};
use registry::Quirks;
use serde_json::{Value, json};

/// The clock, in Unix seconds.
const NOW: u64 = 1_790_000_000;

/// What a client gets.
#[derive(Debug)]
pub enum Reading {
    /// A stream that kept every rule, and the same without events.
    Answer(Box<Stream>),
    /// A fault before the first event.
    Fault(Box<Fault>),
}

/// Reads an answer that comes in pieces of these sizes, over and over.
pub fn read(bytes: &[u8], sizes: &[usize], quirks: &Quirks, codex: bool) -> Reading {
    let mut output = Output::new(codex);
    let mut reader = Reader::new(quirks);
    let mut rest = bytes;
    let mut result = Ok(());
    for size in sizes.iter().cycle() {
        if rest.is_empty() || result.is_err() || output.assembler.outcome().is_some() {
            break;
        }
        let (piece, behind) = rest.split_at((*size).clamp(1, rest.len()));
        rest = behind;
        result = output.step(|mut emit| reader.feed(piece, &mut emit));
    }
    if result.is_ok() && output.assembler.outcome().is_none() {
        result = output.step(|mut emit| reader.end(&mut emit));
    }
    if let Err(fault) = result {
        if !output.begun {
            return Reading::Fault(Box::new(fault));
        }
        output.assembler.fail(&fault, &mut output.frames);
    }
    let sent = String::from_utf8(output.frames.take()).unwrap();
    let stream = if codex {
        strict::check_for_codex_or_panic(&sent)
    } else {
        strict::check_or_panic(&sent)
    };
    if stream.terminal != "response.failed" {
        strict::same_output(&stream.response, &whole(bytes, quirks, codex)).unwrap();
    }
    Reading::Answer(Box::new(stream))
}

/// The response object for a client that wants no events.
fn whole(bytes: &[u8], quirks: &Quirks, codex: bool) -> Value {
    let mut output = Output::new(codex);
    let mut reader = Reader::new(quirks);
    let mut response = output
        .step(|mut emit| reader.feed(bytes, &mut emit))
        .map(|()| output.frames.take_response())
        .unwrap();
    if response.is_none() {
        output.step(|mut emit| reader.end(&mut emit)).unwrap();
        response = output.frames.take_response();
    }
    let response = String::from_utf8(response.unwrap()).unwrap();
    strict::check_response_or_panic(&response)
}

struct Output {
    assembler: Assembler,
    frames: Frames,
    begun: bool,
}

impl Output {
    fn new(codex: bool) -> Self {
        let tool = |name: &str| json!({"type": "function", "name": name, "parameters": {"type": "object"}});
        let body = json!({
            "model": "m", "input": "go", "stream": true, "tools": [tool("look"), tool("take")],
        });
        let source = Source::new(body.to_string());
        let turn = source.turn().unwrap();
        Self {
            assembler: Assembler::new(Settings {
                envelope: Envelope::new(&turn, "resp_0123456789abcdef", NOW),
                tools: turn.tools.names(),
                known_calls: turn.call_ids(),
                codex,
                seal_reasoning: true,
                estimated_input: 100,
                bytes_per_token: 2.7,
                limit: 64 << 20,
            }),
            frames: Frames::default(),
            begun: false,
        }
    }

    fn step(
        &mut self,
        decode: impl FnOnce(&mut dyn FnMut(Event<'_>)) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut failed = None;
        let mut emit = |event: Event<'_>| match event {
            Event::Failed(fault) => failed = Some(fault),
            event => {
                if !self.begun {
                    self.begun = true;
                    self.assembler.begin(&mut self.frames);
                }
                self.assembler.event(event, NOW, &mut self.frames);
            }
        };
        decode(&mut emit)?;
        failed.map_or(Ok(()), Err)
    }
}
