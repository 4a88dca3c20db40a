//! One answer of a provider as the event stream of the client, from bytes to bytes.

use registry::{Model, Provider};

use crate::event::Event;
use crate::failed_request::FailedRequest;
use crate::fault::Fault;
use crate::reader::UpstreamReader;
use crate::responses::assembler::{AnswerParams, Assembler, AssemblerSettings};
use crate::responses::event_buffer::EventBuffer;
use crate::responses::response_object::ResponseObject;
use crate::turn::Turn;
use crate::wire;

/// Translates one answer to a turn, streamed or whole, into server-sent events of the Responses
/// API. Made when the provider has answered with a status of success; it ends with a terminal
/// event, whatever the provider sends.
pub struct AnswerTranslation<'a> {
    provider: &'a Provider,
    model: &'a str,
    reader: UpstreamReader,
    assembler: Assembler,
    events: EventBuffer,
    /// The time of what is fed, in Unix seconds.
    now: u64,
    has_begun: bool,
    fault: Option<Fault>,
}

impl<'a> AnswerTranslation<'a> {
    /// A translation for this model of the provider. `id` is the id of the response, and `now` the
    /// time in Unix seconds.
    pub fn new(
        turn: &Turn<'_>,
        (provider, model): (&'a Provider, &'a str),
        id: &str,
        now: u64,
    ) -> Self {
        let quirks = &provider.dialect_for(model).quirks;
        let unlisted = Model::unlisted(model);
        let listed = provider.model(model).map_or(&unlisted, |listed| listed);
        let relayed_tools = wire::relayed_tools(quirks, turn, listed);
        let params = AnswerParams {
            origin: format!("{}/{model}", provider.id),
            relayed_tools,
            ..AnswerParams::default()
        };
        let response = ResponseObject::new(turn, id, now, relayed_tools);
        let settings = AssemblerSettings::for_turn(turn, false, params);
        Self {
            provider,
            model,
            reader: UpstreamReader::new(quirks),
            assembler: Assembler::new(response, settings),
            events: EventBuffer::default(),
            now,
            has_begun: false,
            fault: None,
        }
    }

    /// The events that these bytes of the answer make. They may end anywhere.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.step(|reader, emit| reader.feed(bytes, &mut |event| emit(event)))
    }

    /// The events at the end of the answer.
    pub fn end(&mut self) -> Vec<u8> {
        self.step(|reader, emit| reader.end(&mut |event| emit(event)))
    }

    /// Why the answer failed, if it did. The last event says so, too.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    fn step(
        &mut self,
        read: impl FnOnce(&mut UpstreamReader, &mut dyn FnMut(Event<'_>)) -> Result<(), Fault>,
    ) -> Vec<u8> {
        let Self {
            reader,
            assembler,
            events,
            now,
            has_begun,
            ..
        } = self;
        if assembler.final_status().is_some() {
            return Vec::new();
        }
        if !*has_begun {
            *has_begun = true;
            assembler.begin(events);
        }
        let mut failed = None;
        let mut emit = |event: Event<'_>| match event {
            _ if failed.is_some() => {}
            Event::Failed(fault) => failed = Some(fault),
            event => failed = assembler.event(event, *now, events).err(),
        };
        let read = read(reader, &mut emit);
        if let Some(fault) = failed.or(read.err()) {
            self.fail(fault);
        }
        let sse = self.events.to_sse(self.events.len());
        self.events.clear();
        sse
    }

    fn fail(&mut self, mut fault: Fault) {
        let request = FailedRequest {
            provider: self.provider,
            path: wire::endpoint(self.provider.dialect_for(self.model).quirks.wire()),
            model: self.model,
            key: None,
            is_answered: true,
            failed: 1,
        };
        request.explain(&mut fault);
        self.assembler.fail(&fault, &mut self.events);
        self.fault = Some(fault);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::responses::request::TurnSource;

    #[test]
    fn an_answer_that_breaks_off_ends_with_a_fault() {
        let provider = registry::ProviderSpec::default().to_provider("acme");
        let source = TurnSource::new(r#"{"model":"m","input":"go","stream":true}"#.to_owned());
        let turn = source.turn().unwrap();
        let mut answer = AnswerTranslation::new(&turn, (&provider, "m"), "resp_1", 1);
        let chunk = br#"data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}"#;
        let mut events = answer.feed(&[chunk.as_slice(), b"\n\n"].concat());
        assert!(answer.fault().is_none());
        events.extend(answer.end());
        let events = String::from_utf8(events).unwrap();
        assert_eq!(events.matches("event: response.failed\n").count(), 1);
        assert!(events.ends_with("data: [DONE]\n\n"), "{events}");
        let message = &answer.fault().unwrap().message;
        assert!(message.contains("/chat/completions"), "{message}");
        assert_eq!(answer.end(), b"");
    }
}
