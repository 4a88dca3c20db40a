//! Decodes the content coding of a body while its bytes arrive, so that memory stays at the decoded
//! size plus one window.
use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter as BrotliDecoder;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use thiserror::Error;
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

/// Logarithm of the largest zstd window: 2^23 bytes, the limit of RFC 9659 for HTTP.
const WINDOW_LOG: u32 = 23;
/// Size of the buffer that decoded bytes pass through.
const BUFFER: usize = 32 * 1024;
/// How much of a coded body is decoded at once: it may become a thousand times as much.
pub(crate) const CODED_PIECE: usize = 4 * 1024;

/// The coding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentCoding {
    Identity,
    Gzip,
    /// With or without the frame of zlib: servers send both.
    Deflate,
    Brotli,
    Zstd,
}

/// Why a body cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum CodingError {
    /// An unknown coding, or several.
    #[error("it is not known")]
    Unknown,
    /// More than the limit comes out of it.
    #[error("too much comes out of it")]
    Full,
    /// Incomplete, or contrary to the coding.
    #[error("the data is broken")]
    Broken,
}

impl ContentCoding {
    /// The coding that the headers name.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, CodingError> {
        let mut codings = headers.get_all(CONTENT_ENCODING).iter();
        let name = match (codings.next(), codings.next()) {
            (None, _) => return Ok(Self::Identity),
            (Some(_), Some(_)) => return Err(CodingError::Unknown),
            (Some(name), None) => name.as_bytes().to_ascii_lowercase(),
        };
        match name.trim_ascii() {
            b"" | b"identity" => Ok(Self::Identity),
            b"gzip" | b"x-gzip" => Ok(Self::Gzip),
            b"deflate" => Ok(Self::Deflate),
            b"br" => Ok(Self::Brotli),
            b"zstd" => Ok(Self::Zstd),
            _ => Err(CodingError::Unknown),
        }
    }

    /// The coding of a body that begins with these bytes. Servers behind others lose the header of
    /// a coding, or leave it on a body that was decoded on the way.
    pub(crate) fn as_begun(self, begin: &[u8]) -> Self {
        const GZIP: &[u8] = b"\x1f\x8b";
        const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
        let can_be = |magic: &[u8]| begin.starts_with(magic) || magic.starts_with(begin);
        match self {
            Self::Gzip if !can_be(GZIP) => Self::Identity,
            Self::Zstd if !can_be(ZSTD) => Self::Identity,
            Self::Identity if begin.starts_with(GZIP) => Self::Gzip,
            Self::Identity if begin.starts_with(ZSTD) => Self::Zstd,
            declared => declared,
        }
    }
}

/// Decodes one body into memory.
pub(crate) struct ContentDecoder(Decoding);

enum Decoding {
    Identity(BoundedBuffer),
    Gzip(Box<MultiGzDecoder<BoundedBuffer>>),
    /// Nothing of it has arrived.
    Deflate(BoundedBuffer),
    Zlib(Box<ZlibDecoder<BoundedBuffer>>),
    RawDeflate(Box<DeflateDecoder<BoundedBuffer>>),
    /// Nothing of it has arrived.
    NewBrotli(BoundedBuffer),
    Brotli(Box<BrotliDecoder<BoundedBuffer>>),
    Zstd {
        state: ZstdDecoder<'static>,
        open: bool,
        out: BoundedBuffer,
        buffer: Box<[u8]>,
    },
}

impl ContentDecoder {
    /// A decoder of a coding. `limit` is the largest decoded size, since the last [`Self::take`].
    /// `expected` is the size on the wire that the sender claims, if it does.
    pub(crate) fn new(
        coding: ContentCoding,
        limit: usize,
        expected: Option<usize>,
    ) -> Result<Self, CodingError> {
        let is_coded = coding != ContentCoding::Identity;
        let out = BoundedBuffer::new(limit, expected.filter(|_| !is_coded));
        Ok(Self(match coding {
            ContentCoding::Identity => Decoding::Identity(out),
            ContentCoding::Gzip => Decoding::Gzip(Box::new(MultiGzDecoder::new(out))),
            ContentCoding::Deflate => Decoding::Deflate(out),
            ContentCoding::Brotli => Decoding::NewBrotli(out),
            ContentCoding::Zstd => {
                let mut state = ZstdDecoder::new().map_err(|_| CodingError::Broken)?;
                state
                    .set_parameter(DParameter::WindowLogMax(WINDOW_LOG))
                    .map_err(|_| CodingError::Broken)?;
                Decoding::Zstd {
                    state,
                    open: true,
                    out,
                    buffer: vec![0; BUFFER].into_boxed_slice(),
                }
            }
        }))
    }

    /// Decodes the next bytes from the wire.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), CodingError> {
        if let Some(first) = bytes.first() {
            self.begin(*first)?;
        }
        let decoding = &mut self.0;
        let written = match decoding {
            Decoding::Identity(out) => return out.push(bytes),
            Decoding::Deflate(_) | Decoding::NewBrotli(_) => return Ok(()),
            Decoding::Gzip(decoder) => decoder.write_all(bytes),
            Decoding::Zlib(decoder) => decoder.write_all(bytes),
            Decoding::RawDeflate(decoder) => decoder.write_all(bytes),
            Decoding::Brotli(decoder) => decoder.write_all(bytes),
            Decoding::Zstd {
                state,
                open,
                out,
                buffer,
            } => return unzstd(state, open, out, buffer, bytes),
        };
        written.map_err(|_| self.out().failure())
    }

    /// Chooses the decoder of a body that begins with this byte, if the coding alone does not say
    /// it.
    fn begin(&mut self, first: u8) -> Result<(), CodingError> {
        let empty = || BoundedBuffer::new(0, None);
        match &mut self.0 {
            Decoding::Deflate(out) => {
                let out = std::mem::replace(out, empty());
                self.0 = if first & 0x0f == 8 && first >> 4 <= 7 {
                    Decoding::Zlib(Box::new(ZlibDecoder::new(out)))
                } else {
                    Decoding::RawDeflate(Box::new(DeflateDecoder::new(out)))
                };
            }
            // This byte asks for a window of up to a gigabyte, which HTTP does not know.
            Decoding::NewBrotli(_) if first & 0x7f == 0x11 => return Err(CodingError::Broken),
            Decoding::NewBrotli(out) => {
                let out = std::mem::replace(out, empty());
                self.0 = Decoding::Brotli(Box::new(BrotliDecoder::new(out, BUFFER)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the bytes on the wire are coded, so that few of them may become many.
    pub(crate) fn is_coded(&self) -> bool {
        !matches!(self.0, Decoding::Identity(_))
    }

    /// How many bytes were decoded so far.
    pub(crate) fn decoded(&self) -> usize {
        self.out().bytes.len()
    }

    /// The memory that they take.
    pub(crate) fn memory(&self) -> usize {
        self.out().memory()
    }

    fn out(&self) -> &BoundedBuffer {
        match &self.0 {
            Decoding::Identity(out)
            | Decoding::Deflate(out)
            | Decoding::NewBrotli(out)
            | Decoding::Zstd { out, .. } => out,
            Decoding::Gzip(decoder) => decoder.get_ref(),
            Decoding::Zlib(decoder) => decoder.get_ref(),
            Decoding::RawDeflate(decoder) => decoder.get_ref(),
            Decoding::Brotli(decoder) => decoder.get_ref(),
        }
    }

    /// Takes what was decoded so far.
    pub(crate) fn take(&mut self) -> Result<Vec<u8>, CodingError> {
        let flushed = match &mut self.0 {
            Decoding::Gzip(decoder) => decoder.flush(),
            Decoding::Zlib(decoder) => decoder.flush(),
            Decoding::RawDeflate(decoder) => decoder.flush(),
            Decoding::Identity(_)
            | Decoding::Deflate(_)
            | Decoding::NewBrotli(_)
            | Decoding::Brotli(_)
            | Decoding::Zstd { .. } => Ok(()),
        };
        flushed.map_err(|_| self.out().failure())?;
        Ok(match &mut self.0 {
            Decoding::Identity(out)
            | Decoding::Deflate(out)
            | Decoding::NewBrotli(out)
            | Decoding::Zstd { out, .. } => out.take(),
            Decoding::Gzip(decoder) => decoder.get_mut().take(),
            Decoding::Zlib(decoder) => decoder.get_mut().take(),
            Decoding::RawDeflate(decoder) => decoder.get_mut().take(),
            Decoding::Brotli(decoder) => decoder.get_mut().take(),
        })
    }

    /// The decoded body. Fails if the coded data is incomplete.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>, CodingError> {
        // A decoder that has seen the end of its stream takes no more.
        let is_whole = match &mut self.0 {
            Decoding::Identity(_) => Ok(true),
            Decoding::Zstd { open, .. } => Ok(!*open),
            Decoding::Deflate(_) | Decoding::NewBrotli(_) => Ok(false),
            Decoding::Gzip(decoder) => decoder.try_finish().map(|()| true),
            Decoding::Zlib(decoder) => decoder
                .write(&[0])
                .and_then(|taken| decoder.try_finish().map(|()| taken == 0)),
            Decoding::RawDeflate(decoder) => decoder
                .write(&[0])
                .and_then(|taken| decoder.try_finish().map(|()| taken == 0)),
            Decoding::Brotli(decoder) => decoder.close().map(|()| true),
        };
        match is_whole {
            Ok(true) => self.take(),
            Ok(false) => Err(CodingError::Broken),
            Err(_) => Err(self.out().failure()),
        }
    }
}

fn unzstd(
    state: &mut ZstdDecoder<'static>,
    open: &mut bool,
    out: &mut BoundedBuffer,
    buffer: &mut [u8],
    mut bytes: &[u8],
) -> Result<(), CodingError> {
    while !bytes.is_empty() || *open {
        let status = state
            .run_on_buffers(bytes, buffer)
            .map_err(|_| CodingError::Broken)?;
        out.push(buffer.get(..status.bytes_written).unwrap_or_default())?;
        bytes = bytes.get(status.bytes_read..).unwrap_or_default();
        // Zero means that a frame is complete and all of it was written.
        *open = status.remaining != 0;
        if bytes.is_empty() && status.bytes_written < buffer.len() {
            break;
        }
        if status.bytes_read == 0 && status.bytes_written == 0 {
            return Err(CodingError::Broken);
        }
    }
    Ok(())
}

/// Bytes in memory, never more than a limit.
struct BoundedBuffer {
    bytes: Vec<u8>,
    /// The size that is expected, or the limit. This much is reserved once a large part has
    /// arrived.
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

    /// The memory in use: the part of what is reserved that was written.
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
    fn failure(&self) -> CodingError {
        if self.full {
            CodingError::Full
        } else {
            CodingError::Broken
        }
    }

    fn push(&mut self, more: &[u8]) -> Result<(), CodingError> {
        let needed = self.bytes.len() + more.len();
        if needed > self.limit {
            self.full = true;
            return Err(CodingError::Full);
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

    use super::{BoundedBuffer, CodingError, ContentCoding, ContentDecoder};

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

    fn decode(
        coding: &str,
        body: &[u8],
        size: usize,
        limit: usize,
    ) -> Result<Vec<u8>, CodingError> {
        let mut headers = HeaderMap::new();
        headers.insert("content-encoding", HeaderValue::from_str(coding).unwrap());
        let coding = ContentCoding::of(&headers)?;
        let mut decoding = ContentDecoder::new(coding, limit, None)?;
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

    // Concatenated members and frames are one body.
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

    // A body that stops early is refused, wherever it stops.
    #[test]
    fn truncation_is_seen_at_every_byte() {
        for coding in ["gzip", "deflate", "zstd"] {
            let body = encode(coding, TEXT);
            for end in 0..body.len() {
                let fault = decode(coding, &body[..end], 7, 1000).unwrap_err();
                assert_eq!(fault, CodingError::Broken, "{coding} {end}");
            }
            let trailing = [body.as_slice(), b"x"].concat();
            assert_eq!(
                decode(coding, &trailing, 9, 1000).unwrap_err(),
                CodingError::Broken
            );
        }
    }

    #[test]
    fn the_limit_is_exact() {
        for coding in ["identity", "gzip", "deflate", "zstd"] {
            let body = encode(coding, TEXT);
            assert!(decode(coding, &body, 5, TEXT.len()).is_ok(), "{coding}");
            let fault = decode(coding, &body, 5, TEXT.len() - 1).unwrap_err();
            assert_eq!(fault, CodingError::Full, "{coding}");
        }
    }

    // A frame that asks for a larger window than allowed is refused.
    #[test]
    fn a_large_window_is_refused() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(24).unwrap();
        encoder.write_all(&vec![b' '; 17 << 20]).unwrap();
        let body = encoder.finish().unwrap();
        assert_eq!(
            decode("zstd", &body, 4096, 64 << 20).unwrap_err(),
            CodingError::Broken
        );
    }

    /// A buffer into which `bytes` bytes were pushed, in pieces.
    fn filled(limit: usize, expected: Option<usize>, bytes: usize) -> BoundedBuffer {
        let mut out = BoundedBuffer::new(limit, expected);
        assert!(out.bytes.capacity() <= BoundedBuffer::MAX_AT_ONCE);
        while out.bytes.len() < bytes {
            let piece = 4099.min(bytes - out.bytes.len());
            out.push(&vec![0; piece]).unwrap();
        }
        out
    }

    // The capacity ends at the limit, not at the next power of two.
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
        for coding in ["compress", "gzip, gzip", "zstd,identity", "chunked"] {
            assert_eq!(
                decode(coding, b"", 1, 10).unwrap_err(),
                CodingError::Unknown,
                "{coding}"
            );
        }
        let mut headers = HeaderMap::new();
        headers.append("content-encoding", HeaderValue::from_static("gzip"));
        headers.append("content-encoding", HeaderValue::from_static("gzip"));
        assert!(ContentCoding::of(&headers).is_err());
    }
}
