//! The body of a response of a provider, decoded. No coding is asked for, but some servers use one.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use adapters::fault::{Fault, Kind};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use http_body::Body;

use super::transport::error_chain;
use crate::net::content_coding::{CODED_PIECE, CodingError, ContentCoding, ContentDecoder};

/// The most bytes that a piece of a coded body may become: an event may have as many.
const MAX_DECODED: usize = 8 * 1024 * 1024;

/// A body whose decoded bytes are read as they arrive. Made for each response; ends with the body
/// or when it is dropped.
pub(super) struct DecodedBody {
    body: reqwest::Body,
    /// The coding as the headers name it; empty if they name none.
    name: String,
    coding: BodyCoding,
}

enum BodyCoding {
    /// Nothing of the body has arrived: what the headers say.
    Unseen(Result<ContentCoding, CodingError>),
    Plain,
    Coded(Box<CodedBody>),
}

struct CodedBody {
    decoder: ContentDecoder,
    /// What has arrived and is not decoded.
    rest: Bytes,
}

impl DecodedBody {
    pub(super) fn new(response: reqwest::Response) -> Self {
        let response: http::Response<reqwest::Body> = response.into();
        let declared = ContentCoding::of(response.headers());
        let name = match declared {
            Ok(ContentCoding::Identity) => String::new(),
            Ok(_) | Err(_) => declared_name(response.headers()),
        };
        Self {
            name,
            coding: BodyCoding::Unseen(declared),
            body: response.into_body(),
        }
    }

    /// The next decoded bytes as they arrive; `None` at the end of the body. A coding that is cut
    /// off there is no fault: what came shows whether it was whole.
    pub(super) async fn next_chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        loop {
            if let BodyCoding::Coded(coded) = &mut self.coding
                && !coded.rest.is_empty()
            {
                let decoded = coded.decode_piece();
                match decoded.map_err(|error| coding_fault(&self.name, error))? {
                    decoded if decoded.is_empty() => continue,
                    decoded => return Poll::Ready(Ok(Some(decoded.into()))),
                }
            }
            let Some(bytes) = ready!(self.poll_coded(cx))? else {
                return Poll::Ready(Ok(None));
            };
            if let BodyCoding::Unseen(declared) = self.coding {
                self.coding = self.coding_of(declared, &bytes)?;
            }
            match &mut self.coding {
                BodyCoding::Coded(coded) => coded.rest = bytes,
                BodyCoding::Plain | BodyCoding::Unseen(_) => {
                    return Poll::Ready(Ok(Some(bytes)));
                }
            }
        }
    }

    /// How a body that begins with these bytes is read.
    fn coding_of(
        &mut self,
        declared: Result<ContentCoding, CodingError>,
        first: &[u8],
    ) -> Result<BodyCoding, Fault> {
        let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
        let coding = match declared {
            Ok(coding) => coding.as_begun(first),
            // The body of an event stream or a document.
            Err(_) if first.iter().take(16).all(is_text) => ContentCoding::Identity,
            Err(error) => return Err(coding_fault(&self.name, error)),
        };
        if coding == ContentCoding::Identity {
            return Ok(BodyCoding::Plain);
        }
        if self.name.is_empty() {
            self.name = format!("{coding:?}").to_lowercase();
        }
        let decoder = ContentDecoder::new(coding, MAX_DECODED, None);
        let decoder = decoder.map_err(|error| coding_fault(&self.name, error))?;
        let rest = Bytes::new();
        Ok(BodyCoding::Coded(Box::new(CodedBody { decoder, rest })))
    }

    /// The next bytes as they are on the wire.
    pub(super) async fn next_coded(&mut self) -> Result<Option<Bytes>, Fault> {
        poll_fn(|cx| self.poll_coded(cx)).await
    }

    fn poll_coded(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        while let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            let frame = frame.map_err(|error| {
                let predicate = "broke the connection before its answer was complete.";
                Fault::of_provider(Kind::Cut, predicate).caused_by(error_chain(&error))
            })?;
            if let Ok(bytes) = frame.into_data()
                && !bytes.is_empty()
            {
                return Poll::Ready(Ok(Some(bytes)));
            }
        }
        Poll::Ready(Ok(None))
    }
}

/// The coding as the headers name it.
fn declared_name(headers: &HeaderMap) -> String {
    let names: Vec<_> = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .filter_map(|name| name.to_str().ok())
        .collect();
    names.join(", ").chars().take(64).collect()
}

impl CodedBody {
    fn decode_piece(&mut self) -> Result<Vec<u8>, CodingError> {
        let piece = self.rest.split_to(self.rest.len().min(CODED_PIECE));
        self.decoder.push(&piece)?;
        self.decoder.take()
    }
}

fn coding_fault(name: &str, error: CodingError) -> Fault {
    let predicate = format!("cannot be read: its content coding is '{name}', and {error}.");
    Fault::of_answer(Kind::BadReply, predicate)
}

impl std::fmt::Debug for DecodedBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DecodedBody")
    }
}
