//! Decodes the parts of a text that may be base64 or hexadecimal.

use super::layers::Layers;

/// Runs of fewer characters are not decoded.
const MIN_RUN: usize = 8;
/// A base64 line of at least this many characters may continue in the next line.
const MIN_WRAPPED_LINE: usize = 60;

/// All runs of one encoding in a layer, decoded into one buffer and separated by zero bytes.
pub(crate) struct EncodedRuns {
    kind: RunEncoding,
    bytes: Vec<u8>,
    runs: Vec<EncodedRun>,
}

/// How a run is decoded. The encoded text may begin anywhere in a word, so each encoding is
/// tried with every number of leading characters skipped.
#[derive(Clone, Copy)]
enum RunEncoding {
    Base64(usize),
    Hex(usize),
}

struct EncodedRun {
    /// Offset in the decoded bytes.
    at: usize,
    /// Offset in the layer.
    from: usize,
    /// Whether it uses the URL-safe alphabet.
    url: bool,
}

impl EncodedRuns {
    /// Decodes a layer in every way and calls `each` with each result. A later decoding sees
    /// the bytes that `each` wrote to the layers before.
    pub(crate) fn each(
        layers: &mut Layers,
        layer: usize,
        mut each: impl FnMut(&mut Layers, &Self),
    ) {
        let kinds = (0..4)
            .map(RunEncoding::Base64)
            .chain((0..2).map(RunEncoding::Hex));
        for kind in kinds {
            let encoded = Self::read(layers.bytes(layer), kind);
            if !encoded.bytes.is_empty() {
                each(layers, &encoded);
            }
        }
    }

    /// The decoded bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn read(text: &[u8], kind: RunEncoding) -> Self {
        let mut all = Self {
            kind,
            bytes: Vec::new(),
            runs: Vec::new(),
        };
        let fits = |byte: &u8| match kind {
            RunEncoding::Base64(_) => sextet(*byte).is_some(),
            RunEncoding::Hex(_) => byte.is_ascii_hexdigit(),
        };
        let mut at = 0;
        let mut continues = false;
        while let Some(next) = text.get(at..).and_then(|rest| rest.iter().position(fits)) {
            let start = at + next;
            let rest = text.get(start..).unwrap_or_default();
            let length = rest
                .iter()
                .position(|byte| !fits(byte))
                .unwrap_or(rest.len());
            at = start + length;
            if !continues && length < MIN_RUN {
                continue;
            }
            let skip = match kind {
                _ if continues => 0,
                RunEncoding::Base64(skip) | RunEncoding::Hex(skip) => skip,
            };
            all.push(rest.get(skip..length).unwrap_or_default(), start + skip);
            let end = text.get(at..).unwrap_or_default();
            let newline = if end.starts_with(b"\r\n") {
                2
            } else {
                usize::from(end.starts_with(b"\n"))
            };
            let whole = matches!(kind, RunEncoding::Base64(_)) && (length - skip).is_multiple_of(4);
            continues = newline > 0
                && whole
                && length >= MIN_WRAPPED_LINE
                && end.get(newline).is_some_and(fits);
            if !continues {
                all.bytes.push(0);
            }
        }
        all
    }

    fn push(&mut self, run: &[u8], from: usize) {
        self.runs.push(EncodedRun {
            at: self.bytes.len(),
            from,
            url: run.iter().any(|byte| matches!(byte, b'-' | b'_')),
        });
        match self.kind {
            RunEncoding::Base64(_) => {
                for group in run.chunks(4) {
                    let bits = group.iter().fold(0, |bits: u32, byte| {
                        bits << 6 | u32::from(sextet(*byte).unwrap_or(0))
                    }) << (6 * (4 - group.len()));
                    let [_, first, second, third] = bits.to_be_bytes();
                    let whole = group.len() * 6 / 8;
                    self.bytes
                        .extend([first, second, third].into_iter().take(whole));
                }
            }
            RunEncoding::Hex(_) => {
                let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0);
                self.bytes.extend(run.chunks_exact(2).map(|pair| {
                    let value = pair.iter().fold(0, |sum, byte| sum * 16 + digit(*byte));
                    u8::try_from(value).unwrap_or(0)
                }));
            }
        }
    }

    fn find_run(&self, at: usize) -> Option<(&EncodedRun, usize)> {
        let after = self.runs.partition_point(|run| run.at <= at);
        let run = self.runs.get(after.checked_sub(1)?)?;
        Some((run, at - run.at))
    }

    /// The characters of the layer that encode a range of the decoded bytes.
    pub(crate) fn source_range(
        &self,
        part: std::ops::Range<usize>,
    ) -> Option<std::ops::Range<usize>> {
        let (first, start) = self.find_run(part.start)?;
        let (last, end) = self.find_run(part.end.checked_sub(1)?)?;
        Some(match self.kind {
            RunEncoding::Base64(_) => {
                first.from + start * 8 / 6..last.from + ((end + 1) * 8).div_ceil(6)
            }
            RunEncoding::Hex(_) => first.from + start * 2..last.from + end * 2 + 2,
        })
    }

    /// Overwrites a decoded byte, in the layers as well.
    pub(crate) fn write(&self, layers: &mut Layers, layer: usize, at: usize, byte: u8) {
        let Some((run, at)) = self.find_run(at) else {
            return;
        };
        if let RunEncoding::Hex(_) = self.kind {
            layers.write_hex(layer, run.from + at * 2, byte);
            return;
        }
        let first = run.from + at * 8 / 6;
        let shift = 8 - at * 8 % 6;
        let now = |at: usize| layers.bytes(layer).get(at).copied().and_then(sextet);
        let (Some(high), Some(low)) = (now(first), now(first + 1)) else {
            return;
        };
        let shift = shift.saturating_sub(4);
        let mask = 0xff_u16 << shift;
        let pair = (u16::from(high) << 6 | u16::from(low)) & !mask | u16::from(byte) << shift;
        let [high, low] = [pair >> 6 & 63, pair & 63].map(|value| character(value, run.url));
        layers.write(layer, first, high);
        layers.write(layer, first + 1, low);
    }
}

/// The value of a character in the standard or the URL-safe alphabet.
fn sextet(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

fn character(value: u16, url: bool) -> u8 {
    let value = u8::try_from(value).unwrap_or(0);
    match value {
        0..26 => b'A' + value,
        26..52 => b'a' + value - 26,
        52..62 => b'0' + value - 52,
        62 => {
            if url {
                b'-'
            } else {
                b'+'
            }
        }
        _ => {
            if url {
                b'_'
            } else {
                b'/'
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn an_overwritten_byte_is_encoded_in_place() {
        let plain = "one two \u{e9} three??? four";
        for lead in 0..3 {
            let plain = format!("{}{plain}", "~".repeat(lead));
            for glued in ["", "x", "xy", "xyz"] {
                let text = format!("say {glued}{} now", STANDARD.encode(&plain));
                let mut layers = Layers::of(text.clone().into_bytes());
                let mut hits = 0;
                EncodedRuns::each(&mut layers, 0, |layers, encoded| {
                    if let Some(at) = memchr::memmem::find(encoded.bytes(), b"three") {
                        hits += 1;
                        for (place, byte) in (at..).zip(*b"THREE") {
                            encoded.write(layers, 0, place, byte);
                        }
                    }
                });
                assert_eq!(hits, 1);
                let expected = STANDARD.encode(plain.replace("three", "THREE"));
                assert_eq!(
                    String::from_utf8(layers.into_text()).unwrap(),
                    format!("say {glued}{expected} now")
                );
            }
        }
    }
}
