//! Takes the chunked transfer coding (RFC 9112, section 7.1) off a body that arrives in any pieces.

use thiserror::Error;

/// Where in the coding the next byte falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the size line, before its first digit.
    Start,
    /// In the hexadecimal size.
    Size(u64),
    /// In a chunk extension, which is skipped.
    Extension(u64),
    /// The size line's CR has been read.
    SizeEnd(u64),
    /// This many bytes of data are still to come.
    Data(u64),
    DataCr,
    DataLf,
    /// At the start of a trailer line; an empty one ends the body.
    Trailer,
    TrailerLine,
    TrailerEnd,
    Done,
}

/// The body broke the coding.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("byte {byte:#04x} in state {state} of the chunked coding")]
pub(crate) struct Malformed {
    byte: u8,
    state: String,
}

/// One body's decoder.
#[derive(Debug)]
pub(crate) struct Dechunker(State);

impl Dechunker {
    pub(crate) const fn new() -> Self {
        Self(State::Start)
    }

    /// Whether the last chunk and its trailer have been read.
    pub(crate) fn is_done(&self) -> bool {
        self.0 == State::Done
    }

    /// Hands the data in `input` to `sink`, in order, in pieces that mean nothing.
    ///
    /// Returns the bytes left over behind the end of the body.
    pub(crate) fn feed<'a>(
        &mut self,
        mut input: &'a [u8],
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<&'a [u8], Malformed> {
        while self.0 != State::Done {
            if let State::Data(left) = self.0 {
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
                    0 => State::DataCr,
                    left => State::Data(left),
                };
                continue;
            }
            let Some((&byte, rest)) = input.split_first() else {
                break;
            };
            self.0 = next(self.0, byte).ok_or_else(|| Malformed {
                byte,
                state: format!("{:?}", self.0),
            })?;
            input = rest;
        }
        Ok(input)
    }
}

fn next(state: State, byte: u8) -> Option<State> {
    let digit = char::from(byte).to_digit(16).map(u64::from);
    match (state, byte) {
        (State::Start, _) => Some(State::Size(digit?)),
        (State::Size(size) | State::Extension(size), b'\r') => Some(State::SizeEnd(size)),
        (State::Size(size), b';' | b' ' | b'\t') | (State::Extension(size), _) => {
            Some(State::Extension(size))
        }
        (State::Size(size), _) => Some(State::Size(size.checked_mul(16)?.checked_add(digit?)?)),
        (State::SizeEnd(0) | State::TrailerLine, b'\n') => Some(State::Trailer),
        (State::SizeEnd(size), b'\n') => Some(State::Data(size)),
        (State::DataCr, b'\r') => Some(State::DataLf),
        (State::DataLf, b'\n') => Some(State::Start),
        (State::Trailer, b'\r') => Some(State::TrailerEnd),
        (State::Trailer | State::TrailerLine, _) => Some(State::TrailerLine),
        (State::TrailerEnd, b'\n') => Some(State::Done),
        (
            State::SizeEnd(_)
            | State::Data(_)
            | State::DataCr
            | State::DataLf
            | State::TrailerEnd
            | State::Done,
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
