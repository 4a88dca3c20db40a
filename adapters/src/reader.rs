//! Reads the body of an upstream response, whatever its framing, into [`Event`]s.
//!
//! Servers that do not stream answer with a JSON document, and some answer an error
//! with a web page. Content types are not reliable, so the first character of the
//! body decides how it is framed.

use registry::WireQuirks;
use serde_json::value::RawValue;

use crate::event::Event;
use crate::fault::{Fault, Kind};
use crate::sse::{self, BOM};
use crate::wire::Decoder;

/// The most bytes of an unrecognized stream that are kept to find out what it is.
const MAX_UNRECOGNIZED: usize = 16 * 1024;

/// Reads one response body. Made for each upstream response; ends with
/// [`Self::end`].
#[derive(Debug)]
pub struct UpstreamReader {
    framing: AnswerFraming,
    decoder: Decoder,
}

/// How a piece of data arrived that a decoder gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataKind {
    /// As a complete event, or a complete document.
    Complete,
    /// As an event named `error`.
    ErrorEvent,
    /// As the rest of the body, which may be truncated.
    Trailing,
}

/// How the body is framed.
#[derive(Debug)]
enum AnswerFraming {
    /// Nothing but white space so far, or a part of a byte order mark.
    Unknown(Vec<u8>),
    Events {
        sse: sse::SseDecoder,
        /// The bytes before the first event that was understood.
        unrecognized: Vec<u8>,
    },
    /// One or several JSON documents, or an HTML page.
    Document(Vec<u8>),
}

impl UpstreamReader {
    /// A reader for the response of a model with this wire and these quirks.
    pub fn new(quirks: &WireQuirks) -> Self {
        Self {
            framing: AnswerFraming::Unknown(Vec::new()),
            decoder: Decoder::new(quirks),
        }
    }

    /// Whether the answer has its finish reason. Token counts may still follow.
    pub fn is_complete(&self) -> bool {
        self.decoder.is_complete()
    }

    /// The bytes that wait for the end of their event or document.
    pub fn held_bytes(&self) -> usize {
        match &self.framing {
            AnswerFraming::Unknown(held) | AnswerFraming::Document(held) => held.len(),
            AnswerFraming::Events { sse, unrecognized } => sse.held_bytes() + unrecognized.len(),
        }
    }

    /// Reads the next bytes, wherever they were split. Fails if an event or a
    /// document exceeds the limit of [`sse::SseDecoder`].
    pub fn feed(&mut self, bytes: &[u8], emit: &mut impl FnMut(Event<'_>)) -> Result<(), Fault> {
        let AnswerFraming::Unknown(held) = &mut self.framing else {
            return self.feed_framed(bytes, emit);
        };
        held.extend_from_slice(bytes);
        let bytes = std::mem::take(held);
        let text = without_marks(&bytes);
        self.framing = match text.first() {
            // White space keeps the connection alive and need not be stored.
            None => return Ok(()),
            Some(_) if BOM.starts_with(text) => {
                self.framing = AnswerFraming::Unknown(bytes);
                return Ok(());
            }
            Some(b'{' | b'[' | b'<') => AnswerFraming::Document(Vec::new()),
            Some(_) => AnswerFraming::Events {
                sse: sse::SseDecoder::default(),
                unrecognized: Vec::new(),
            },
        };
        self.feed_framed(text, emit)
    }

    fn feed_framed(&mut self, bytes: &[u8], emit: &mut impl FnMut(Event<'_>)) -> Result<(), Fault> {
        let decoder = &mut self.decoder;
        match &mut self.framing {
            AnswerFraming::Unknown(_) => Ok(()),
            AnswerFraming::Events { sse, unrecognized } => {
                sse.feed(bytes, &mut |event| {
                    decoder.decode(&event.data, data_kind(&event), emit);
                })
                .map_err(too_large)?;
                if decoder.has_decoded_nothing()
                    && unrecognized.len() + bytes.len() <= MAX_UNRECOGNIZED
                {
                    unrecognized.extend_from_slice(bytes);
                }
                Ok(())
            }
            AnswerFraming::Document(document)
                if document.len() + bytes.len() > sse::SseDecoder::DEFAULT_LIMIT =>
            {
                Err(too_large(sse::TooLarge {
                    limit: sse::SseDecoder::DEFAULT_LIMIT,
                }))
            }
            AnswerFraming::Document(document) => {
                document.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Ends the body and emits how the answer ended.
    pub fn end(&mut self, emit: &mut impl FnMut(Event<'_>)) -> Result<(), Fault> {
        let decoder = &mut self.decoder;
        match std::mem::replace(&mut self.framing, AnswerFraming::Unknown(Vec::new())) {
            AnswerFraming::Unknown(_) => {}
            AnswerFraming::Events { sse, unrecognized } => {
                sse.finish(&mut |event| {
                    let kind = match data_kind(&event) {
                        DataKind::ErrorEvent => DataKind::ErrorEvent,
                        DataKind::Complete | DataKind::Trailing => DataKind::Trailing,
                    };
                    decoder.decode(&event.data, kind, emit);
                })
                .map_err(too_large)?;
                if decoder.has_decoded_nothing() {
                    decode_document(&unrecognized_lines(&unrecognized), decoder, emit);
                }
            }
            AnswerFraming::Document(bytes) => {
                decode_document(&String::from_utf8_lossy(&bytes), decoder, emit);
            }
        }
        decoder.finish(emit);
        Ok(())
    }
}

/// The bytes after the white space and the byte order marks at their beginning.
fn without_marks(bytes: &[u8]) -> &[u8] {
    let mut text = bytes.trim_ascii_start();
    while let Some(rest) = text.strip_prefix(BOM) {
        text = rest.trim_ascii_start();
    }
    text
}

fn data_kind(event: &sse::SseEvent<'_>) -> DataKind {
    if event.name.as_deref() == Some("error") {
        DataKind::ErrorEvent
    } else {
        DataKind::Complete
    }
}

/// Decodes a body that is not an event stream. Some servers send several JSON
/// documents in it. Text other than JSON comes from a server between us and the
/// provider and is read as an error.
fn decode_document(text: &str, decoder: &mut Decoder, emit: &mut impl FnMut(Event<'_>)) {
    let text = text.trim();
    if !text.starts_with(['{', '[']) {
        if text.contains('\u{fffd}') {
            let predicate = "sent something that is not text.";
            decoder.fail(Fault::of_provider(Kind::BadReply, predicate), emit);
        } else if !text.is_empty() {
            decoder.fail_with_text(text, emit);
        }
        return;
    }
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    loop {
        let from = documents.byte_offset();
        match documents.next() {
            None => return,
            Some(Ok(raw)) => decoder.decode(raw.get(), DataKind::Complete, emit),
            Some(Err(_)) => {
                let rest = text.get(from..).unwrap_or_default();
                decoder.decode(rest, DataKind::Trailing, emit);
                return;
            }
        }
    }
}

/// The lines of a stream that are neither fields nor comments.
fn unrecognized_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let fields = ["", "data", "event", "id", "retry"];
    let unrecognized = text.split(['\n', '\r']).filter(|line| {
        let name = line.split_once(':').map_or(*line, |(name, _)| name);
        !fields.contains(&name)
    });
    unrecognized.collect::<Vec<_>>().join("\n")
}

fn too_large(error: sse::TooLarge) -> Fault {
    let predicate = format!("sent an event of more than {} bytes.", error.limit);
    Fault::of_provider(Kind::BadReply, predicate)
}
