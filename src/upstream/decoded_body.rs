//! The body of a response of a provider, decoded. No coding is asked for, and some servers use one all
//! the same.

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

/// A body of which the decoded bytes are read as they arrive. Made for each response; ends with the
/// body or when it is dropped.
pub(super) struct DecodedBody {
    body: reqwest::Body,
    coding: BodyCoding,
}

enum BodyCoding {
    /// Nothing of the body has arrived.
    Unseen(Box<DeclaredCoding>),
    Plain,
    Coded(Box<CodedBody>),
}

/// What the headers say of a body.
struct DeclaredCoding {
    name: String,
    coding: Result<ContentCoding, CodingError>,
}

struct CodedBody {
    name: String,
    decoder: ContentDecoder,
    /// What has arrived and is not decoded.
    rest: Bytes,
}

impl DecodedBody {
    pub(super) fn new(response: reqwest::Response) -> Self {
        let response: http::Response<reqwest::Body> = response.into();
        let coding = BodyCoding::Unseen(Box::new(DeclaredCoding::of(response.headers())));
        let body = response.into_body();
        Self { body, coding }
    }

    /// The next decoded bytes as they arrive; `None` at the end of the body. A coding that is cut off
    /// there is no fault: what came shows whether it was whole.
    pub(super) async fn next_chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        loop {
            if let BodyCoding::Coded(coded) = &mut self.coding
                && !coded.rest.is_empty()
            {
                let decoded = coded.decode_piece();
                match decoded.map_err(|error| coding_fault(&coded.name, error))? {
                    decoded if decoded.is_empty() => continue,
                    decoded => return Poll::Ready(Ok(Some(decoded.into()))),
                }
            }
            let Some(bytes) = ready!(self.poll_coded(cx))? else {
                return Poll::Ready(Ok(None));
            };
            if let BodyCoding::Unseen(declared) = &self.coding {
                let seen = declared.begin(&bytes);
                self.coding = seen.map_err(|error| coding_fault(&declared.name, error))?;
            }
            match &mut self.coding {
                BodyCoding::Coded(coded) => coded.rest = bytes,
                BodyCoding::Plain | BodyCoding::Unseen(_) => {
                    return Poll::Ready(Ok(Some(bytes)));
                }
            }
        }
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

impl DeclaredCoding {
    fn of(headers: &HeaderMap) -> Self {
        let names = headers.get_all(CONTENT_ENCODING).iter();
        let names: Vec<_> = names.filter_map(|name| name.to_str().ok()).collect();
        Self {
            name: names.join(", ").chars().take(64).collect(),
            coding: ContentCoding::of(headers),
        }
    }

    /// How a body that begins with these bytes is read.
    fn begin(&self, begin: &[u8]) -> Result<BodyCoding, CodingError> {
        let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
        let coding = match self.coding {
            Ok(coding) => coding.as_begun(begin),
            // The body of an event stream or a document.
            Err(_) if begin.iter().take(16).all(is_text) => ContentCoding::Identity,
            Err(error) => return Err(error),
        };
        if coding == ContentCoding::Identity {
            return Ok(BodyCoding::Plain);
        }
        let name = match self.name.as_str() {
            "" | "identity" => format!("{coding:?}").to_lowercase(),
            name => name.to_owned(),
        };
        let decoder = ContentDecoder::new(coding, MAX_DECODED, None)?;
        let rest = Bytes::new();
        Ok(BodyCoding::Coded(Box::new(CodedBody {
            name,
            decoder,
            rest,
        })))
    }
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
