//! Decodes the content coding of a request body while its bytes arrive, so that memory
//! stays at the decoded size plus one window.
use std::io::{self, Write};

use flate2::write::{MultiGzDecoder, ZlibDecoder};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

use super::body_error::BodyError;

/// Logarithm of the largest zstd window: 2^23 bytes, the limit of RFC 9659 for HTTP.
const WINDOW_LOG: u32 = 23;
/// Size of the buffer that decoded bytes pass through.
const BUFFER: usize = 32 * 1024;

/// Decodes one body into memory.
pub(super) struct BodyDecoder {
    coding: ContentCoding,
}

enum ContentCoding {
    Identity(BoundedBuffer),
    Gzip(Box<MultiGzDecoder<BoundedBuffer>>),
    Deflate(Box<ZlibDecoder<BoundedBuffer>>),
    Zstd {
        state: ZstdDecoder<'static>,
        open: bool,
        out: BoundedBuffer,
        buffer: Box<[u8]>,
    },
}

impl BodyDecoder {
    /// A decoder for the coding that the headers name. `limit` is the largest decoded
    /// size. `expected` is the size on the wire that the client
    /// claims, if it does.
    pub(super) fn new(
        headers: &HeaderMap,
        limit: usize,
        expected: Option<usize>,
    ) -> Result<Self, BodyError> {
        let is_coded = headers.contains_key(CONTENT_ENCODING);
        let out = BoundedBuffer::new(limit, expected.filter(|_| !is_coded));
        let buffer = || vec![0; BUFFER].into_boxed_slice();
        let mut codings = headers.get_all(CONTENT_ENCODING).iter();
        let coding = match (codings.next(), codings.next()) {
            (None, _) => ContentCoding::Identity(out),
            (Some(_), Some(_)) => return Err(BodyError::Coding),
            (Some(name), None) => match name.as_bytes().to_ascii_lowercase().as_slice() {
                b"" | b"identity" => ContentCoding::Identity(out),
                b"gzip" | b"x-gzip" => ContentCoding::Gzip(Box::new(MultiGzDecoder::new(out))),
                b"deflate" => ContentCoding::Deflate(Box::new(ZlibDecoder::new(out))),
                b"zstd" => {
                    let mut state = ZstdDecoder::new().map_err(|_| BodyError::Broken)?;
                    state
                        .set_parameter(DParameter::WindowLogMax(WINDOW_LOG))
                        .map_err(|_| BodyError::Broken)?;
                    ContentCoding::Zstd {
                        state,
                        open: true,
                        out,
                        buffer: buffer(),
                    }
                }
                _ => return Err(BodyError::Coding),
            },
        };
        Ok(Self { coding })
    }

    /// Decodes the next bytes from the wire.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), BodyError> {
        match &mut self.coding {
            ContentCoding::Identity(out) => out.push(bytes),
            ContentCoding::Gzip(decoder) => decoder
                .write_all(bytes)
                .map_err(|_| decoder.get_ref().failure()),
            ContentCoding::Deflate(decoder) => decoder
                .write_all(bytes)
                .map_err(|_| decoder.get_ref().failure()),
            ContentCoding::Zstd {
                state,
                open,
                out,
                buffer,
            } => unzstd(state, open, out, buffer, bytes),
        }
    }

    /// Whether the bytes on the wire are coded, so that few of them may become many.
    pub(super) fn is_coded(&self) -> bool {
        !matches!(self.coding, ContentCoding::Identity(_))
    }

    /// How many bytes were decoded so far.
    pub(super) fn decoded(&self) -> usize {
        self.out().bytes.len()
    }

    /// The memory that they take.
    pub(super) fn memory(&self) -> usize {
        self.out().memory()
    }

    fn out(&self) -> &BoundedBuffer {
        match &self.coding {
            ContentCoding::Identity(out) | ContentCoding::Zstd { out, .. } => out,
            ContentCoding::Gzip(decoder) => decoder.get_ref(),
            ContentCoding::Deflate(decoder) => decoder.get_ref(),
        }
    }

    /// The decoded body. Fails if the coded data is incomplete.
    pub(super) fn finish(self) -> Result<Vec<u8>, BodyError> {
        match self.coding {
            ContentCoding::Identity(mut out)
            | ContentCoding::Zstd {
                open: false,
                mut out,
                ..
            } => Ok(out.take()),
            ContentCoding::Gzip(mut decoder) => {
                let ended = decoder.try_finish();
                ended.map_err(|_| decoder.get_ref().failure())?;
                Ok(decoder.get_mut().take())
            }
            ContentCoding::Deflate(mut decoder) => {
                // A decoder that has seen the end of its stream takes no more.
                let taken = decoder.write(&[0]);
                let ended = taken.and_then(|taken| decoder.try_finish().map(|()| taken == 0));
                if ended.map_err(|_| decoder.get_ref().failure())? {
                    Ok(decoder.get_mut().take())
                } else {
                    Err(BodyError::Broken)
                }
            }
            ContentCoding::Zstd { open: true, .. } => Err(BodyError::Broken),
        }
    }
}

fn unzstd(
    state: &mut ZstdDecoder<'static>,
    open: &mut bool,
    out: &mut BoundedBuffer,
    buffer: &mut [u8],
    mut bytes: &[u8],
) -> Result<(), BodyError> {
    while !bytes.is_empty() || *open {
        let status = state
            .run_on_buffers(bytes, buffer)
            .map_err(|_| BodyError::Broken)?;
        out.push(buffer.get(..status.bytes_written).unwrap_or_default())?;
        bytes = bytes.get(status.bytes_read..).unwrap_or_default();
        // Zero means that a frame is complete and all of it was written.
        *open = status.remaining != 0;
        if bytes.is_empty() && status.bytes_written < buffer.len() {
            break;
        }
        if status.bytes_read == 0 && status.bytes_written == 0 {
            return Err(BodyError::Broken);
        }
    }
    Ok(())
}

/// Bytes in memory, never more than a limit.
struct BoundedBuffer {
    bytes: Vec<u8>,
    /// The size that is expected, or the limit. Once much has arrived, so much is reserved.
    expected: usize,
    limit: usize,
    /// Whether something did not fit.
    full: bool,
}

impl BoundedBuffer {
    /// A buffer grows to this size as bytes arrive. Beyond it, the whole expected size is reserved
    /// at once, so that it is not copied again: memory that is reserved and not written costs only
    /// addresses.
    const GROWS_TO: usize = 1 << 20;
    /// At most this much is reserved before the first byte.
    const MAX_AT_ONCE: usize = 256 * 1024;

    /// `expected` is the claimed size, if there is one.
    fn new(limit: usize, expected: Option<usize>) -> Self {
        let at_once = expected.unwrap_or(0).min(limit).min(Self::MAX_AT_ONCE);
        Self {
            bytes: Vec::with_capacity(at_once),
            expected: expected.unwrap_or(limit).min(limit),
            limit,
            full: false,
        }
    }

    /// The memory in use: what is reserved, as far as it was written.
    fn memory(&self) -> usize {
        let reserved = self.bytes.capacity();
        reserved.min(self.bytes.len().max(Self::GROWS_TO))
    }

    /// The bytes, without what was reserved in addition.
    fn take(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        if bytes.capacity() > Self::GROWS_TO {
            bytes.shrink_to_fit();
        }
        bytes
    }

    /// Why a decoder could not go on.
    fn failure(&self) -> BodyError {
        if self.full {
            BodyError::TooLarge
        } else {
            BodyError::Broken
        }
    }

    fn push(&mut self, more: &[u8]) -> Result<(), BodyError> {
        let needed = self.bytes.len() + more.len();
        if needed > self.limit {
            self.full = true;
            return Err(BodyError::TooLarge);
        }
        if needed > self.bytes.capacity() {
            self.grow(needed);
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }

    fn grow(&mut self, needed: usize) {
        let doubled = self.bytes.capacity().saturating_mul(2);
        let missing = |target: usize| target.clamp(needed, self.limit) - self.bytes.len();
        let (some, whole) = (missing(doubled), missing(self.expected));
        let is_large = (Self::GROWS_TO..=self.expected).contains(&needed);
        // A system that does not give out addresses freely may refuse the whole.
        if !is_large || self.bytes.try_reserve_exact(whole).is_err() {
            self.bytes.reserve_exact(some);
        }
    }
}

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.push(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(_) => Err(io::ErrorKind::FileTooLarge.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use http::{HeaderMap, HeaderValue};

    use super::{BodyDecoder, BodyError, BoundedBuffer};

    const TEXT: &[u8] = br#"{"input":"one two three four, one two three four"}"#;

    fn encode(coding: &str, text: &[u8]) -> Vec<u8> {
        let level = flate2::Compression::default();
        match coding {
            "gzip" => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            "deflate" => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            "zstd" => zstd::encode_all(text, 0).unwrap(),
            _ => text.to_vec(),
        }
    }

    fn decode(coding: &str, body: &[u8], size: usize, limit: usize) -> Result<Vec<u8>, BodyError> {
        let mut headers = HeaderMap::new();
        headers.insert("content-encoding", HeaderValue::from_str(coding).unwrap());
        let mut decoding = BodyDecoder::new(&headers, limit, None)?;
        for piece in body.chunks(size) {
            decoding.push(piece)?;
        }
        decoding.finish()
    }

    #[test]
    fn any_cut_decodes_to_the_same() {
        for coding in ["identity", "gzip", "deflate", "zstd", "GZip", "ZSTD"] {
            let body = encode(&coding.to_lowercase(), TEXT);
            for size in 1..=body.len() {
                assert_eq!(
                    decode(coding, &body, size, 1000).unwrap(),
                    TEXT,
                    "{coding} {size}"
                );
            }
        }
    }

    // R26: concatenated members and frames are one body.
    #[test]
    fn members_and_frames_concatenate() {
        for coding in ["gzip", "zstd"] {
            let body = [encode(coding, TEXT), encode(coding, TEXT)].concat();
            for size in 1..=body.len() {
                let twice = decode(coding, &body, size, 1000).unwrap();
                assert_eq!(twice, [TEXT, TEXT].concat(), "{coding} {size}");
            }
        }
    }

    // R26: a body that stops early is refused, wherever it stops.
    #[test]
    fn truncation_is_seen_at_every_byte() {
        for coding in ["gzip", "deflate", "zstd"] {
            let body = encode(coding, TEXT);
            for end in 0..body.len() {
                let fault = decode(coding, &body[..end], 7, 1000).unwrap_err();
                assert_eq!(fault, BodyError::Broken, "{coding} {end}");
            }
            let trailing = [body.as_slice(), b"x"].concat();
            assert_eq!(
                decode(coding, &trailing, 9, 1000).unwrap_err(),
                BodyError::Broken
            );
        }
    }

    #[test]
    fn the_limit_is_exact() {
        for coding in ["identity", "gzip", "deflate", "zstd"] {
            let body = encode(coding, TEXT);
            assert!(decode(coding, &body, 5, TEXT.len()).is_ok(), "{coding}");
            let fault = decode(coding, &body, 5, TEXT.len() - 1).unwrap_err();
            assert_eq!(fault, BodyError::TooLarge, "{coding}");
        }
    }

    // R26: a frame that asks for a larger window than allowed is refused.
    #[test]
    fn a_large_window_is_refused() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(24).unwrap();
        encoder.write_all(&vec![b' '; 17 << 20]).unwrap();
        let body = encoder.finish().unwrap();
        assert_eq!(
            decode("zstd", &body, 4096, 64 << 20).unwrap_err(),
            BodyError::Broken
        );
    }

    /// A buffer into which so many bytes were pushed, in pieces.
    fn filled(limit: usize, expected: Option<usize>, bytes: usize) -> BoundedBuffer {
        let mut out = BoundedBuffer::new(limit, expected);
        assert!(out.bytes.capacity() <= BoundedBuffer::MAX_AT_ONCE);
        while out.bytes.len() < bytes {
            let piece = 4099.min(bytes - out.bytes.len());
            out.push(&vec![0; piece]).unwrap();
        }
        out
    }

    // R26: the capacity ends at the limit, not at the next power of two.
    #[test]
    fn memory_stays_within_the_limit() {
        let limit = 3 << 20;
        let mut out = filled(limit, None, limit);
        assert_eq!(out.bytes.capacity(), limit);
        assert!(out.push(&[0]).is_err());
    }

    #[test]
    fn a_large_body_is_reserved_once_and_counts_as_it_arrives() {
        let (large, limit) = (2 << 20, 64 << 20);
        for (expected, reserved) in [(None, limit), (Some(large), large), (Some(100), 0)] {
            let mut out = filled(limit, expected, large);
            if reserved > 0 {
                assert_eq!(out.bytes.capacity(), reserved);
            }
            assert_eq!(out.memory(), large);
            assert_eq!(out.take().capacity(), large);
        }
        // A small part of what is claimed reserves little.
        let out = filled(limit, Some(limit), 1000);
        assert!(out.bytes.capacity() <= BoundedBuffer::MAX_AT_ONCE);
    }

    #[test]
    fn unknown_and_stacked_codings_are_refused() {
        for coding in ["br", "gzip, gzip", "zstd,identity", "chunked"] {
            assert_eq!(
                decode(coding, b"", 1, 10).unwrap_err(),
                BodyError::Coding,
                "{coding}"
            );
        }
        let mut headers = HeaderMap::new();
        headers.append("content-encoding", HeaderValue::from_static("gzip"));
        headers.append("content-encoding", HeaderValue::from_static("gzip"));
        assert!(BodyDecoder::new(&headers, 10, None).is_err());
    }
}
