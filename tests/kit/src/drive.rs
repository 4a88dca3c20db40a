//! Runs an upstream's answer through the adapters, from its bytes to our events, in the same steps
//! as the engine but without a network and a clock.

use adapters::event::Event;
use adapters::failed_request::FailedRequest;
use adapters::fault::Fault;
use adapters::notes::Notes;
use adapters::reader::UpstreamReader;
use adapters::responses::assembler::{AnswerParams, Assembler, AssemblerSettings};
use adapters::responses::event_buffer::EventBuffer;
use adapters::responses::response_object::ResponseObject;
use adapters::turn::Turn;
use adapters::wire;
use registry::{Model, ProviderSpec, WireQuirks};

/// The time of all answers, in Unix seconds.
pub const NOW: u64 = 1_790_000_000;
/// The response id of all answers.
pub const RESPONSE_ID: &str = "resp_0123456789abcdef";

/// What an assembler is made from.
pub struct AnswerSetup {
    /// The response at its beginning.
    pub response: ResponseObject,
    /// The settings of the assembler.
    pub assembler: AssemblerSettings,
}

/// The setup of an answer to this turn from an upstream that runs no tools.
pub fn settings(turn: &Turn<'_>, codex: bool, seal_reasoning: bool) -> AnswerSetup {
    let model = Model::unlisted(&turn.model);
    settings_for(
        turn,
        codex,
        seal_reasoning,
        (&WireQuirks::default(), &model),
    )
}

/// The setup of an answer to this turn, as the server makes it.
pub fn settings_for(
    turn: &Turn<'_>,
    codex: bool,
    seal_reasoning: bool,
    (quirks, model): (&WireQuirks, &Model),
) -> AnswerSetup {
    let relayed_tools = wire::relayed_tools(quirks, turn, model);
    let params = AnswerParams {
        seal_reasoning,
        origin: "acme/m".to_owned(),
        estimated_input_tokens: 100,
        bytes_per_token: 2.7,
        relayed_tools,
    };
    AnswerSetup {
        response: ResponseObject::new(turn, RESPONSE_ID, NOW, relayed_tools),
        assembler: AssemblerSettings::for_turn(turn, codex, params),
    }
}

/// The stream of events, or the fault before the first one. Each chunk is one read from the
/// upstream's socket.
pub fn stream<'c>(
    settings: AnswerSetup,
    quirks: &WireQuirks,
    chunks: impl IntoIterator<Item = &'c [u8]>,
) -> Result<String, Fault> {
    stream_with_notes(settings, quirks, chunks).map(|(stream, _)| stream)
}

/// [`stream`], with the notes of what was repaired.
pub fn stream_with_notes<'c>(
    settings: AnswerSetup,
    quirks: &WireQuirks,
    chunks: impl IntoIterator<Item = &'c [u8]>,
) -> Result<(String, Notes), Fault> {
    let codex = settings.assembler.caller_is_codex;
    let answer = read(settings, quirks, chunks, true);
    match answer.fault {
        Some(fault) if !answer.begun && !fault.is_reported_in_stream(codex) => Err(fault),
        _ => Ok((text(&answer.body), answer.notes)),
    }
}

/// The response for a client that does not stream, or the fault.
pub fn whole<'c>(
    settings: AnswerSetup,
    quirks: &WireQuirks,
    chunks: impl IntoIterator<Item = &'c [u8]>,
) -> Result<String, Fault> {
    let answer = read(settings, quirks, chunks, false);
    match answer.fault {
        Some(fault) => Err(fault),
        None => Ok(text(&answer.body)),
    }
}

/// Our output is always UTF-8.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// An answer that was read to its end.
pub struct DrivenAnswer {
    /// The stream, or the response alone; either ends with the fault if there is one.
    pub body: Vec<u8>,
    /// The notes of what was repaired.
    pub notes: Notes,
    /// The fault that ended the answer early.
    pub fault: Option<Fault>,
    /// Whether an event was written before the fault.
    pub begun: bool,
}

/// Reads an answer to its end, for a client that streams or one that does not.
pub fn read<'c>(
    settings: AnswerSetup,
    quirks: &WireQuirks,
    chunks: impl IntoIterator<Item = &'c [u8]>,
    streams: bool,
) -> DrivenAnswer {
    read_after(&[], settings, quirks, chunks, streams)
}

/// [`read`], after an attempt that got this answer, which cannot be used.
///
/// # Panics
/// If that answer can be used.
pub fn read_after<'c>(
    failed: &[u8],
    settings: AnswerSetup,
    quirks: &WireQuirks,
    chunks: impl IntoIterator<Item = &'c [u8]>,
    streams: bool,
) -> DrivenAnswer {
    let mut driver = AnswerDriver::new(settings);
    let mut body = Vec::new();
    let mut send = |frames: &mut EventBuffer| {
        if streams {
            body.extend_from_slice(&frames.to_sse(frames.len()));
        } else {
            body.extend_from_slice(&frames.final_response().unwrap_or_default());
        }
        frames.clear();
    };
    if !failed.is_empty() {
        let is_refused = driver.run(quirks, [failed], &mut send).is_err();
        assert!(is_refused, "the first answer can be used");
        driver.assembler.begin_attempt(true);
    }
    let mut fault = driver.run(quirks, chunks, &mut send).err();
    if let Some(fault) = &mut fault {
        explain_silence(fault, true);
    }
    let begun = driver.begun;
    if let Some(fault) = &fault {
        driver.begin();
        driver.assembler.fail(fault, &mut driver.frames);
        send(&mut driver.frames);
    }
    DrivenAnswer {
        body,
        notes: driver.assembler.notes().clone(),
        fault,
        begun,
    }
}

/// Completes the message of a fault with which the provider said nothing, as the server does.
pub fn explain_silence(fault: &mut Fault, is_answered: bool) {
    if fault.message.is_empty() {
        let request = FailedRequest {
            provider: &ProviderSpec::default().to_provider("acme"),
            path: "",
            model: "m",
            key: None,
            is_answered,
            failed: 1,
        };
        request.explain(fault);
    }
}

struct AnswerDriver {
    assembler: Assembler,
    frames: EventBuffer,
    begun: bool,
}

impl AnswerDriver {
    fn new(setup: AnswerSetup) -> Self {
        Self {
            assembler: Assembler::new(setup.response, setup.assembler),
            frames: EventBuffer::default(),
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
        quirks: &WireQuirks,
        chunks: impl IntoIterator<Item = &'c [u8]>,
        mut send: impl FnMut(&mut EventBuffer),
    ) -> Result<(), Fault> {
        let mut reader = UpstreamReader::new(quirks);
        for chunk in chunks {
            self.step(|mut emit| reader.feed(chunk, &mut emit))?;
            send(&mut self.frames);
            if self.assembler.final_status().is_some() {
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
