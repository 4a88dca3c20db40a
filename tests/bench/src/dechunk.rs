//! A decoder of the chunked transfer coding (RFC 9112, section 7.1) for a body that arrives in
//! pieces of any size.

use thiserror::Error;

/// The part of the coding that the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    /// In the size line, before its first digit.
    Start,
    /// In the hexadecimal size.
    Size(u64),
    /// In a chunk extension, which is skipped.
    Extension(u64),
    /// The size line's CR has been read.
    SizeEnd(u64),
    /// In the data of a chunk, with this many bytes left.
    Data(u64),
    DataCr,
    DataLf,
    /// At the start of a trailer line. An empty line ends the body.
    Trailer,
    TrailerLine,
    TrailerEnd,
    Done,
}

/// The body violates the chunked coding.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("byte {byte:#04x} in state {state} of the chunked coding")]
pub(crate) struct MalformedChunk {
    byte: u8,
    state: String,
}

/// The decoder of one body.
#[derive(Debug)]
pub(crate) struct Dechunker(ChunkState);

impl Dechunker {
    pub(crate) const fn new() -> Self {
        Self(ChunkState::Start)
    }

    /// Whether the last chunk and its trailer have been read.
    pub(crate) fn is_done(&self) -> bool {
        self.0 == ChunkState::Done
    }

    /// Passes the data in `input` to `sink`, in order and in pieces of arbitrary size.
    ///
    /// Returns the bytes after the end of the body.
    pub(crate) fn feed<'a>(
        &mut self,
        mut input: &'a [u8],
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<&'a [u8], MalformedChunk> {
        while self.0 != ChunkState::Done {
            if let ChunkState::Data(left) = self.0 {
                let take = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                let Some((data, rest)) = input.split_at_checked(take) else {
                    break;
                };
                if data.is_empty() {
                    break;
                }
                sink(data);
                input = rest;
                self.0 = match left - take as u64 {
                    0 => ChunkState::DataCr,
                    left => ChunkState::Data(left),
                };
                continue;
            }
            let Some((&byte, rest)) = input.split_first() else {
                break;
            };
            self.0 = next(self.0, byte).ok_or_else(|| MalformedChunk {
                byte,
                state: format!("{:?}", self.0),
            })?;
            input = rest;
        }
        Ok(input)
    }
}

fn next(state: ChunkState, byte: u8) -> Option<ChunkState> {
    let digit = char::from(byte).to_digit(16).map(u64::from);
    match (state, byte) {
        (ChunkState::Start, _) => Some(ChunkState::Size(digit?)),
        (ChunkState::Size(size) | ChunkState::Extension(size), b'\r') => {
            Some(ChunkState::SizeEnd(size))
        }
        (ChunkState::Size(size), b';' | b' ' | b'\t') | (ChunkState::Extension(size), _) => {
            Some(ChunkState::Extension(size))
        }
        (ChunkState::Size(size), _) => {
            Some(ChunkState::Size(size.checked_mul(16)?.checked_add(digit?)?))
        }
        (ChunkState::SizeEnd(0) | ChunkState::TrailerLine, b'\n') => Some(ChunkState::Trailer),
        (ChunkState::SizeEnd(size), b'\n') => Some(ChunkState::Data(size)),
        (ChunkState::DataCr, b'\r') => Some(ChunkState::DataLf),
        (ChunkState::DataLf, b'\n') => Some(ChunkState::Start),
        (ChunkState::Trailer, b'\r') => Some(ChunkState::TrailerEnd),
        (ChunkState::Trailer | ChunkState::TrailerLine, _) => Some(ChunkState::TrailerLine),
        (ChunkState::TrailerEnd, b'\n') => Some(ChunkState::Done),
        (
            ChunkState::SizeEnd(_)
            | ChunkState::Data(_)
            | ChunkState::DataCr
            | ChunkState::DataLf
            | ChunkState::TrailerEnd
            | ChunkState::Done,
            _,
        ) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] =
        b"5\r\nhello\r\n00B;a=\"b\"\r\n, \r\nworld: \r\n1 \r\n!\r\n0\r\nx: y\r\n\r\n";
    const DATA: &[u8] = b"hello, \r\nworld: !";

    fn decode(pieces: &[&[u8]]) -> (Vec<u8>, bool) {
        let mut dechunker = Dechunker::new();
        let mut data = Vec::new();
        for piece in pieces {
            let left = dechunker
                .feed(piece, &mut |piece| data.extend_from_slice(piece))
                .unwrap();
            assert!(left.is_empty());
        }
        (data, dechunker.is_done())
    }

    #[test]
    fn every_pair_of_splits_gives_the_same_data() {
        for first in 0..=BODY.len() {
            for second in first..=BODY.len() {
                let pieces = [&BODY[..first], &BODY[first..second], &BODY[second..]];
                assert_eq!(decode(&pieces), (DATA.to_vec(), true), "{first}, {second}");
            }
        }
    }

    #[test]
    fn single_bytes_give_the_same_data() {
        let bytes: Vec<&[u8]> = BODY.chunks(1).collect();
        assert_eq!(decode(&bytes), (DATA.to_vec(), true));
    }

    #[test]
    fn a_cut_body_is_not_done() {
        for end in 0..BODY.len() {
            assert!(!decode(&[&BODY[..end]]).1, "{end}");
        }
    }

    #[test]
    fn bytes_behind_the_end_are_left_over() {
        let input = [BODY, b"HTTP/1.1"].concat();
        let left = Dechunker::new().feed(&input, &mut |_| ()).unwrap();
        assert_eq!(left, b"HTTP/1.1");
    }

    #[test]
    fn broken_coding_is_refused() {
        for broken in [
            "x\r\n",
            "\r\n",
            "1\r\nab",
            "1\n",
            "11111111111111111\r\n",
            "0\r\n\rx",
        ] {
            let fed = Dechunker::new()
                .feed(broken.as_bytes(), &mut |_| ())
                .is_err();
            assert!(fed, "{broken:?}");
        }
    }
}
