//! A recorded body through the reader and the assembler, in the order in which
//! the engine takes the same steps.

use adapters::chat::reader::Reader;
use adapters::event::Event;
use adapters::fault::Fault;
use adapters::responses::assembler::{Assembler, Settings};
use adapters::responses::envelope::Envelope;
use adapters::responses::frames::Frames;
use adapters::responses::request::Source;
use registry::Quirks;

const NOW: u64 = 1_790_000_000;

/// What a client gets.
pub struct Played {
    /// The stream or, for a client that wants no stream, the response.
    pub body: Vec<u8>,
    /// What broke the answer off.
    pub fault: Option<Fault>,
}

/// Who gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Any,
    Codex,
    /// Wants the response alone.
    Unstreamed,
}

pub fn play<'b>(
    quirks: &Quirks,
    client: Client,
    reads: impl IntoIterator<Item = &'b [u8]>,
) -> Played {
    let source = Source::new(r#"{"model":"m","stream":true,"input":"go"}"#.to_owned());
    let turn = source.turn().unwrap();
    let mut answer = Answer {
        assembler: Assembler::new(Settings {
            envelope: Envelope::new(&turn, "resp_0123456789abcdef", NOW),
            tools: turn.tools.names(),
            known_calls: turn.call_ids(),
            codex: client == Client::Codex,
            seal_reasoning: false,
            origin: String::new(),
            estimated_input: 100,
            bytes_per_token: 2.7,
            limit: 64 << 20,
        }),
        frames: Frames::default(),
        client,
        body: Vec::new(),
        begun: false,
    };
    let mut reader = Reader::new(quirks);
    let fault = answer.read_all(&mut reader, reads).err();
    if let Some(fault) = &fault {
        answer.begin();
        answer.assembler.fail(fault, &mut answer.frames);
        answer.send();
    }
    Played {
        body: answer.body,
        fault,
    }
}

struct Answer {
    assembler: Assembler,
    frames: Frames,
    client: Client,
    body: Vec<u8>,
    begun: bool,
}

impl Answer {
    fn begin(&mut self) {
        if !self.begun {
            self.begun = true;
            self.assembler.begin(&mut self.frames);
        }
    }

    fn send(&mut self) {
        if self.client == Client::Unstreamed {
            self.body
                .extend(self.frames.take_response().into_iter().flatten());
        } else {
            self.body.extend(self.frames.take());
        }
    }

    fn read_all<'b>(
        &mut self,
        reader: &mut Reader,
        reads: impl IntoIterator<Item = &'b [u8]>,
    ) -> Result<(), Fault> {
        for bytes in reads {
            self.step(|mut emit| reader.feed(bytes, &mut emit))?;
            if self.assembler.outcome().is_some() {
                return Ok(());
            }
        }
        self.step(|mut emit| reader.end(&mut emit))
    }

    fn step(
        &mut self,
        decode: impl FnOnce(&mut dyn FnMut(Event<'_>)) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut failed = None;
        let mut emit = |event: Event<'_>| match event {
            _ if failed.is_some() => {}
            Event::Failed(fault) => failed = Some(fault),
            event => {
                self.begin();
                failed = self.assembler.event(event, NOW, &mut self.frames).err();
            }
        };
        decode(&mut emit)?;
        self.send();
        failed.map_or(Ok(()), Err)
    }
}
