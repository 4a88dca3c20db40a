//! Reads the body of an upstream response, whatever its framing, into [`Event`]s.
//!
//! Servers that do not stream answer with a JSON document, and some answer an error
//! with a web page. Content types are not reliable, so the first character of the
//! body decides how it is framed.

use std::borrow::Cow;

use registry::WireQuirks;
use serde_json::value::RawValue;

use crate::event::{DataKind, Event};
use crate::fault::{Fault, Kind};
use crate::quirk_patch::QuirkPatch;
use crate::sse::{self, BOM};
use crate::wire::Decoder;

/// Reads one response body. Made for each upstream response; ends with
/// [`Self::end`].
#[derive(Debug)]
pub struct UpstreamReader {
    framing: AnswerFraming,
    decoder: Decoder,
}

/// How the body is framed.
#[derive(Debug)]
enum AnswerFraming {
    /// Nothing but white space so far, or a part of a byte order mark.
    Unknown(Vec<u8>),
    Events {
        sse: sse::SseDecoder,
        /// How many bytes of the lines that are no fields were looked at.
        looked_at: usize,
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

    /// What the answer showed about its model, once it has ended: a quirk patch, and whether it
    /// applies to the model.
    pub fn observed_patch(&self) -> Option<(QuirkPatch, bool)> {
        self.decoder.observed_patch()
    }

    /// Whether the answer has its token counts behind its finish reason. Only its end can follow.
    pub fn has_counts(&self) -> bool {
        self.decoder.has_counts()
    }

    /// The bytes that wait for the end of their event or document.
    pub fn held_bytes(&self) -> usize {
        match &self.framing {
            AnswerFraming::Unknown(held) | AnswerFraming::Document(held) => held.len(),
            AnswerFraming::Events { sse, .. } => sse.held_bytes(),
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
                looked_at: 0,
            },
        };
        self.feed_framed(text, emit)
    }

    /// Reads bytes after the first ones. An error in the stream that is no event is read before
    /// what follows it, which is often the end.
    fn feed_framed(&mut self, bytes: &[u8], emit: &mut impl FnMut(Event<'_>)) -> Result<(), Fault> {
        let is_stream = matches!(self.framing, AnswerFraming::Events { .. });
        let end = is_stream.then(|| end_of_bare_document(bytes)).flatten();
        let (bytes, rest) = bytes
            .split_at_checked(end.unwrap_or(bytes.len()))
            .unwrap_or((bytes, &[]));
        self.feed_part(bytes, emit)?;
        if rest.is_empty() {
            return Ok(());
        }
        self.feed_part(rest, emit)
    }

    fn feed_part(&mut self, bytes: &[u8], emit: &mut impl FnMut(Event<'_>)) -> Result<(), Fault> {
        let decoder = &mut self.decoder;
        match &mut self.framing {
            AnswerFraming::Unknown(_) => Ok(()),
            AnswerFraming::Events { sse, looked_at } => {
                sse.feed(bytes, &mut |event| {
                    let name = event.name.as_deref();
                    decoder.decode(&event.data, name, data_kind(&event), emit);
                })
                .map_err(too_large)?;
                if sse.unrecognized().len() > *looked_at {
                    *looked_at = sse.unrecognized().len();
                    decoder.fail_with_error(&last_document(sse.unrecognized()), emit);
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

    /// Ends an answer that broke off with this fault: emits what is still held of a call, then the
    /// fault.
    pub fn break_off(&mut self, fault: Fault, emit: &mut impl FnMut(Event<'_>)) {
        self.decoder.fail(fault, emit);
    }

    /// Ends the body and emits how the answer ended.
    pub fn end(&mut self, emit: &mut impl FnMut(Event<'_>)) -> Result<(), Fault> {
        let decoder = &mut self.decoder;
        match std::mem::replace(&mut self.framing, AnswerFraming::Unknown(Vec::new())) {
            AnswerFraming::Unknown(_) => {}
            AnswerFraming::Events { sse, .. } => {
                let unrecognized = String::from_utf8_lossy(sse.unrecognized()).into_owned();
                let cut_line = sse.cut_line().into_owned();
                sse.finish(&mut |event| {
                    let kind = match data_kind(&event) {
                        DataKind::ErrorEvent => DataKind::ErrorEvent,
                        DataKind::Complete | DataKind::Trailing => DataKind::Trailing,
                    };
                    decoder.decode(&event.data, event.name.as_deref(), kind, emit);
                })
                .map_err(too_large)?;
                decoder.fail_with_error(&cut_line, emit);
                if decoder.has_decoded_nothing() {
                    let lines = format!("{unrecognized}{cut_line}");
                    decode_document(&lines, decoder, emit);
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
            Some(Ok(raw)) => decoder.decode(raw.get(), None, DataKind::Complete, emit),
            Some(Err(_)) => {
                let rest = text.get(from..).unwrap_or_default();
                decoder.decode(rest, None, DataKind::Trailing, emit);
                return;
            }
        }
    }
}

/// Where the blank line behind a JSON document without the name of a field is, if there is one.
fn end_of_bare_document(bytes: &[u8]) -> Option<usize> {
    let begin = if bytes.starts_with(b"{") {
        0
    } else {
        let mut lines = memchr::memchr_iter(b'\n', bytes).map(|end| end + 1);
        lines.find(|start| bytes.get(*start) == Some(&b'{'))?
    };
    let document = bytes.get(begin..)?;
    let blank = [&b"\n\n"[..], b"\n\r\n"];
    let ends = blank.map(|blank| memchr::memmem::find(document, blank));
    Some(begin + ends.into_iter().flatten().min()? + 1)
}

/// The last JSON document of these lines, which may be incomplete.
fn last_document(lines: &[u8]) -> Cow<'_, str> {
    let from = memchr::memmem::rfind(lines, b"\n{").map_or(0, |at| at + 1);
    String::from_utf8_lossy(lines.get(from..).unwrap_or_default())
}

fn too_large(error: sse::TooLarge) -> Fault {
    let predicate = format!("sent an event of more than {} bytes.", error.limit);
    Fault::of_provider(Kind::BadReply, predicate)
}
