//! Content codings of request bodies, decoded as the bytes arrive, so that memory
//! stays at the decoded size plus one window.
use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

use super::body::BodyFault;

/// Largest zstd window: 2^23 bytes, what RFC 9659 sets for HTTP.
const WINDOW_LOG: u32 = 23;
/// Bytes decoded at a time.
const STEP: usize = 32 * 1024;

/// A body that is being decoded into memory.
pub(super) struct Decoding {
    coding: Coding,
}

enum Coding {
    Identity(Capped),
    Gzip(Box<MultiGzDecoder<Capped>>),
    Deflate {
        state: Decompress,
        ended: bool,
        out: Capped,
        step: Box<[u8]>,
    },
    Zstd {
        state: ZstdDecoder<'static>,
        open: bool,
        out: Capped,
        step: Box<[u8]>,
    },
}

impl Decoding {
    /// Starts with the coding that the headers name. `limit` bounds the decoded
    /// size; `expected` is a size to reserve at once, a hint that is not trusted far.
    pub(super) fn new(
        headers: &HeaderMap,
        limit: usize,
        expected: usize,
    ) -> Result<Self, BodyFault> {
        let out = Capped::new(limit, expected);
        let step = || vec![0; STEP].into_boxed_slice();
        let mut codings = headers.get_all(CONTENT_ENCODING).iter();
        let coding = match (codings.next(), codings.next()) {
            (None, _) => Coding::Identity(out),
            (Some(_), Some(_)) => return Err(BodyFault::Coding),
            (Some(name), None) => match name.as_bytes().to_ascii_lowercase().as_slice() {
                b"" | b"identity" => Coding::Identity(out),
                b"gzip" | b"x-gzip" => Coding::Gzip(Box::new(MultiGzDecoder::new(out))),
                b"deflate" => Coding::Deflate {
                    state: Decompress::new(true),
                    ended: false,
                    out,
                    step: step(),
                },
                b"zstd" => {
                    let mut state = ZstdDecoder::new().map_err(|_| BodyFault::Broken)?;
                    state
                        .set_parameter(DParameter::WindowLogMax(WINDOW_LOG))
                        .map_err(|_| BodyFault::Broken)?;
                    Coding::Zstd {
                        state,
                        open: true,
                        out,
                        step: step(),
                    }
                }
                _ => return Err(BodyFault::Coding),
            },
        };
        Ok(Self { coding })
    }

    /// Takes the next bytes from the wire.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), BodyFault> {
        match &mut self.coding {
            Coding::Identity(out) => out.push(bytes),
            Coding::Gzip(decoder) => decoder.write_all(bytes).map_err(|_| {
                if decoder.get_ref().full {
                    BodyFault::TooLarge
                } else {
                    BodyFault::Broken
                }
            }),
            Coding::Deflate {
                state,
                ended,
                out,
                step,
            } => inflate(state, ended, out, step, bytes),
            Coding::Zstd {
                state,
                open,
                out,
                step,
            } => unzstd(state, open, out, step, bytes),
        }
    }

    /// The decoded body; broken if the coding has not come to its end.
    pub(super) fn finish(self) -> Result<Vec<u8>, BodyFault> {
        match self.coding {
            Coding::Identity(out) => Ok(out.bytes),
            Coding::Gzip(mut decoder) => {
                decoder.try_finish().map_err(|_| {
                    if decoder.get_ref().full {
                        BodyFault::TooLarge
                    } else {
                        BodyFault::Broken
                    }
                })?;
                Ok(std::mem::take(&mut decoder.get_mut().bytes))
            }
            Coding::Deflate { ended, out, .. } => whole(ended, out),
            Coding::Zstd { open, out, .. } => whole(!open, out),
        }
    }
}

fn whole(ended: bool, out: Capped) -> Result<Vec<u8>, BodyFault> {
    if ended {
        Ok(out.bytes)
    } else {
        Err(BodyFault::Broken)
    }
}

/// The zlib format, which is what RFC 9110, 8.4.1.2 calls deflate.
fn inflate(
    state: &mut Decompress,
    ended: &mut bool,
    out: &mut Capped,
    step: &mut [u8],
    mut bytes: &[u8],
) -> Result<(), BodyFault> {
    loop {
        if *ended {
            return if bytes.is_empty() {
                Ok(())
            } else {
                Err(BodyFault::Broken)
            };
        }
        let (read, written) = (state.total_in(), state.total_out());
        let status = state
            .decompress(bytes, step, FlushDecompress::None)
            .map_err(|_| BodyFault::Broken)?;
        let read = usize::try_from(state.total_in() - read).map_err(|_| BodyFault::Broken)?;
        let written =
            usize::try_from(state.total_out() - written).map_err(|_| BodyFault::Broken)?;
        out.push(step.get(..written).unwrap_or_default())?;
        bytes = bytes.get(read..).unwrap_or_default();
        match status {
            Status::StreamEnd => *ended = true,
            Status::Ok | Status::BufError => {
                if bytes.is_empty() && written < step.len() {
                    return Ok(());
                }
                if read == 0 && written == 0 {
                    return Err(BodyFault::Broken);
                }
            }
        }
    }
}

fn unzstd(
    state: &mut ZstdDecoder<'static>,
    open: &mut bool,
    out: &mut Capped,
    step: &mut [u8],
    mut bytes: &[u8],
) -> Result<(), BodyFault> {
    while !bytes.is_empty() || *open {
        let status = state
            .run_on_buffers(bytes, step)
            .map_err(|_| BodyFault::Broken)?;
        out.push(step.get(..status.bytes_written).unwrap_or_default())?;
        bytes = bytes.get(status.bytes_read..).unwrap_or_default();
        // Zero says that a frame is complete and wholly written out.
        *open = status.remaining != 0;
        if bytes.is_empty() && status.bytes_written < step.len() {
            break;
        }
        if status.bytes_read == 0 && status.bytes_written == 0 {
            return Err(BodyFault::Broken);
        }
    }
    Ok(())
}

/// Memory that never holds more than its limit.
struct Capped {
    bytes: Vec<u8>,
    limit: usize,
    /// Something did not fit.
    full: bool,
}

impl Capped {
    /// A claimed size is believed up to here: beyond, memory follows the bytes.
    const BELIEVED: usize = 256 * 1024;

    fn new(limit: usize, expected: usize) -> Self {
        let bytes = Vec::with_capacity(expected.min(limit).min(Self::BELIEVED));
        Self {
            bytes,
            limit,
            full: false,
        }
    }

    fn push(&mut self, more: &[u8]) -> Result<(), BodyFault> {
        let needed = self.bytes.len() + more.len();
        if needed > self.limit {
            self.full = true;
            return Err(BodyFault::TooLarge);
        }
        if needed > self.bytes.capacity() {
            // Doubling, but not past the limit, which bounds the allocation too.
            let target = self
                .bytes
                .capacity()
                .saturating_mul(2)
                .clamp(needed, self.limit);
            self.bytes.reserve_exact(target - self.bytes.len());
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }
}

impl Write for Capped {
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

    use super::{BodyFault, Capped, Decoding};

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

    fn decode(coding: &str, body: &[u8], step: usize, limit: usize) -> Result<Vec<u8>, BodyFault> {
        let mut headers = HeaderMap::new();
        headers.insert("content-encoding", HeaderValue::from_str(coding).unwrap());
        let mut decoding = Decoding::new(&headers, limit, 0)?;
        for piece in body.chunks(step) {
            decoding.push(piece)?;
        }
        decoding.finish()
    }

    #[test]
    fn any_cut_decodes_to_the_same() {
        for coding in ["identity", "gzip", "deflate", "zstd", "GZip", "ZSTD"] {
            let body = encode(&coding.to_lowercase(), TEXT);
            for step in 1..=body.len() {
                assert_eq!(
                    decode(coding, &body, step, 1000).unwrap(),
                    TEXT,
                    "{coding} {step}"
                );
            }
        }
    }

    // R26: concatenated members and frames are one body.
    #[test]
    fn members_and_frames_concatenate() {
        for coding in ["gzip", "zstd"] {
            let body = [encode(coding, TEXT), encode(coding, TEXT)].concat();
            for step in 1..=body.len() {
                let twice = decode(coding, &body, step, 1000).unwrap();
                assert_eq!(twice, [TEXT, TEXT].concat(), "{coding} {step}");
            }
        }
    }

    // R26: a body that stops early is broken, wherever it stops.
    #[test]
    fn truncation_is_seen_at_every_byte() {
        for coding in ["gzip", "deflate", "zstd"] {
            let body = encode(coding, TEXT);
            for end in 0..body.len() {
                let fault = decode(coding, &body[..end], 7, 1000).unwrap_err();
                assert_eq!(fault, BodyFault::Broken, "{coding} {end}");
            }
            let trailing = [body.as_slice(), b"x"].concat();
            assert_eq!(
                decode(coding, &trailing, 9, 1000).unwrap_err(),
                BodyFault::Broken
            );
        }
    }

    #[test]
    fn the_limit_is_exact() {
        for coding in ["identity", "gzip", "deflate", "zstd"] {
            let body = encode(coding, TEXT);
            assert!(decode(coding, &body, 5, TEXT.len()).is_ok(), "{coding}");
            let fault = decode(coding, &body, 5, TEXT.len() - 1).unwrap_err();
            assert_eq!(fault, BodyFault::TooLarge, "{coding}");
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
            BodyFault::Broken
        );
    }

    // R26: what a body may take of memory is the limit, not the next power of two.
    #[test]
    fn memory_stays_within_the_limit() {
        let limit = 3 << 20;
        let mut out = Capped::new(limit, usize::MAX);
        assert!(out.bytes.capacity() <= Capped::BELIEVED);
        while out.push(&[0; 4099]).is_ok() {}
        assert!(out.bytes.len() > limit - 4099);
        assert_eq!(out.bytes.capacity(), limit);
    }

    #[test]
    fn unknown_and_stacked_codings_are_refused() {
        for coding in ["br", "gzip, gzip", "zstd,identity", "chunked"] {
            assert_eq!(
                decode(coding, b"", 1, 10).unwrap_err(),
                BodyFault::Coding,
                "{coding}"
            );
        }
        let mut headers = HeaderMap::new();
        headers.append("content-encoding", HeaderValue::from_static("gzip"));
        headers.append("content-encoding", HeaderValue::from_static("gzip"));
        assert!(Decoding::new(&headers, 10, 0).is_err());
    }
}
