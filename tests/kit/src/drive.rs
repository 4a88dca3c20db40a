//! From upstream bytes to our events, in the order in which the engine takes
//! the same steps, without its waiting: for tests, and for what tests expect.

use registry::Quirks;

use adapters::chat::reader::Reader;
use adapters::event::Event;
use adapters::fault::Fault;
use adapters::notes::Notes;
use adapters::responses::assembler::{Assembler, Settings, Terms};
use adapters::responses::envelope::Envelope;
use adapters::responses::frames::Frames;
use adapters::turn::Turn;

/// The clock of all tests, in Unix seconds.
pub const NOW: u64 = 1_790_000_000;
/// The response id of all tests.
pub const RESPONSE_ID: &str = "resp_0123456789abcdef";

/// The settings for an answer to this turn, as a server makes them.
pub fn settings(turn: &Turn<'_>, codex: bool, seal_reasoning: bool) -> Settings {
    Settings {
        envelope: Envelope::new(turn, RESPONSE_ID, NOW),
        tools: turn.tools.names(),
        known_calls: turn.call_ids(),
        codex,
        terms: Terms {
            seal_reasoning,
            origin: "acme/m".to_owned(),
            estimated_input: 100,
            bytes_per_token: 2.7,
        },
        limit: 64 << 20,
    }
}

/// The stream for a client that wants events, or the fault that comes before
/// the first one. Each chunk is one read of the upstream's socket.
pub fn stream<'c>(
    settings: Settings,
    quirks: &Quirks,
    chunks: impl IntoIterator<Item = &'c [u8]>,
) -> Result<String, Fault> {
    told(settings, quirks, chunks).map(|(stream, _)| stream)
}

/// The same with what was repaired on the way.
pub fn told<'c>(
    settings: Settings,
    quirks: &Quirks,
    chunks: impl IntoIterator<Item = &'c [u8]>,
) -> Result<(String, Notes), Fault> {
    let codex = settings.codex;
    let read = read(settings, quirks, chunks, true);
    match read.fault {
        Some(fault) if !read.begun && !fault.is_told_in_stream(codex) => Err(fault),
        _ => Ok((text(&read.body), read.notes)),
    }
}

/// The response for a client that wants only that, or the fault.
pub fn whole<'c>(
    settings: Settings,
    quirks: &Quirks,
    chunks: impl IntoIterator<Item = &'c [u8]>,
) -> Result<String, Fault> {
    let read = read(settings, quirks, chunks, false);
    match read.fault {
        Some(fault) => Err(fault),
        None => Ok(text(&read.body)),
    }
}

/// What is written is UTF-8.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// An answer that was read to its end.
pub struct DrivenAnswer {
    /// The stream, or the response alone. It tells the fault, too.
    pub body: Vec<u8>,
    /// What was repaired on the way.
    pub notes: Notes,
    /// What broke the answer off.
    pub fault: Option<Fault>,
    /// Something was written before the fault.
    pub begun: bool,
}

/// Reads an answer, for a client that wants events or one that does not.
pub fn read<'c>(
    settings: Settings,
    quirks: &Quirks,
    chunks: impl IntoIterator<Item = &'c [u8]>,
    streams: bool,
) -> DrivenAnswer {
    let mut turn = AnswerDriver::new(settings);
    let mut body = Vec::new();
    let mut send = |frames: &mut Frames| {
        if streams {
            body.extend(frames.take());
        } else {
            body.extend(frames.take_response().into_iter().flatten());
        }
    };
    let fault = turn.run(quirks, chunks, &mut send).err();
    let begun = turn.begun;
    if let Some(fault) = &fault {
        turn.begin();
        turn.assembler.fail(fault, &mut turn.frames);
        send(&mut turn.frames);
    }
    DrivenAnswer {
        body,
        notes: turn.assembler.notes().clone(),
        fault,
        begun,
    }
}

struct AnswerDriver {
    assembler: Assembler,
    frames: Frames,
    begun: bool,
}

impl AnswerDriver {
    fn new(settings: Settings) -> Self {
        Self {
            assembler: Assembler::new(settings),
            frames: Frames::default(),
            begun: false,
        }
    }

    fn begin(&mut self) {
        if !self.begun {
            self.begun = true;
            self.assembler.begin(&mut self.frames);
        }
    }

    fn run<'c>(
        &mut self,
        quirks: &Quirks,
        chunks: impl IntoIterator<Item = &'c [u8]>,
        mut send: impl FnMut(&mut Frames),
    ) -> Result<(), Fault> {
        let mut reader = Reader::new(quirks);
        for chunk in chunks {
            self.step(|mut emit| reader.feed(chunk, &mut emit))?;
            send(&mut self.frames);
            if self.assembler.outcome().is_some() {
                return Ok(());
            }
        }
        self.step(|mut emit| reader.end(&mut emit))?;
        send(&mut self.frames);
        Ok(())
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
        match failed {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }
}
