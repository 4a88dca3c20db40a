//! The events of a streamed response, for the commands that print its text.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use adapters::sse::{SseDecoder, SseEvent};

/// The largest event that is read: the last one has the whole response.
const MAX_EVENT_BYTES: usize = 256 << 20;

/// Reads the events of one response, in whatever pieces they come. `R` is what the command wants
/// to know of the final response.
pub(super) struct ResponseStream<R> {
    events: SseDecoder,
    /// The final response; `None` until the response has ended.
    pub(super) ended: Option<R>,
}

#[derive(Deserialize)]
struct PrintedEvent<R> {
    #[serde(rename = "type")]
    kind: String,
    delta: Option<String>,
    response: Option<R>,
}

impl<R: DeserializeOwned> ResponseStream<R> {
    pub(super) fn new() -> Self {
        Self {
            events: SseDecoder::new(MAX_EVENT_BYTES),
            ended: None,
        }
    }

    /// The text in further bytes of the stream. `other` is given the type and the JSON of each
    /// event that is neither text nor the end.
    pub(super) fn read(&mut self, bytes: &[u8], mut other: impl FnMut(&str, &str)) -> String {
        let (mut text, ended) = (String::new(), &mut self.ended);
        let mut take = |event: SseEvent<'_>| {
            let data = &event.data;
            let Ok(event) = serde_json::from_str::<PrintedEvent<R>>(data) else {
                return;
            };
            match event.kind.as_str() {
                "response.output_text.delta" | "response.refusal.delta" => {
                    text += &event.delta.unwrap_or_default();
                }
                "response.completed" | "response.failed" | "response.incomplete" => {
                    *ended = event.response;
                }
                kind => other(kind, data),
            }
        };
        // An event that is too large ends the text; the final response is missing then.
        self.events.feed(bytes, &mut take).ok();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Status {
        status: String,
    }

    const STREAM: &str = "event: response.created\ndata: {\"type\":\"response.created\",\
        \"response\":{\"status\":\"queued\"}}\n\n: the response goes on\n\n\
        event: response.output_text.delta\n\
        data: {\"type\":\"response.output_text.delta\",\"delta\":\"h\u{e9}llo\\n\"}\n\n\
        data: {\"type\":\"response.output_text.delta\",\"delta\":\"you\"}\n\n\
        data: {\"type\":\"response.incomplete\",\"response\":{\"status\":\"incomplete\"}}\n\n\
        data: [DONE]\n\n";

    #[test]
    fn the_text_is_found_however_the_stream_is_cut() {
        for size in 1..80 {
            let mut events = ResponseStream::<Status>::new();
            let chunks = STREAM.as_bytes().chunks(size);
            let text: String = chunks.map(|chunk| events.read(chunk, |_, _| {})).collect();
            assert_eq!(text, "h\u{e9}llo\nyou");
            let ended = events.ended.map(|response| response.status);
            assert_eq!(ended.as_deref(), Some("incomplete"));
        }
    }
}
