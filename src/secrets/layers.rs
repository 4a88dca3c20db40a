//! Undoes the encodings that apply to a whole text, one layer at a time: first the escapes
//! of JSON inside JSON, then percent-encoding. A range that is found in a layer can be mapped
//! back to the text, and a byte can be overwritten there in its original encoding.

use std::ops::Range;

use memchr::memchr;

/// Maximum levels of JSON inside JSON; nothing real nests deeper.
const JSON_LAYERS: usize = 5;
/// Maximum levels of percent-encoding: a URL in a query in a query.
const PERCENT_LAYERS: usize = 3;

/// A text and its decoded layers. Layer 0 is the text itself; each further layer is the one
/// below it, decoded once.
pub(crate) struct Layers {
    text: Vec<u8>,
    decoded: Vec<DecodedLayer>,
    /// The last layer before percent-decoding.
    json: usize,
}

/// The layer above another one, with the mapping between their offsets.
struct DecodedLayer {
    code: LayerCode,
    bytes: Vec<u8>,
    /// The offsets behind each decoded escape, in increasing order.
    seams: Vec<Seam>,
}

#[derive(Clone, Copy)]
enum LayerCode {
    Json,
    Percent,
}

/// Decodes an escape at the beginning of a text: its byte and the length of the escape.
type DecodeUnit = fn(&[u8]) -> Option<(u8, usize)>;

struct Seam {
    at: u32,
    below: u32,
}

impl Layers {
    /// Decodes `text` as far as there are escapes.
    pub(crate) fn of(text: Vec<u8>) -> Self {
        let mut layers = Self {
            text,
            decoded: Vec::new(),
            json: 0,
        };
        layers.undo(LayerCode::Json, JSON_LAYERS);
        layers.json = layers.top();
        layers.undo(LayerCode::Percent, PERCENT_LAYERS);
        layers
    }

    fn undo(&mut self, code: LayerCode, max: usize) {
        for _ in 0..max {
            match DecodedLayer::over(self.bytes(self.top()), code) {
                Some(step) => self.decoded.push(step),
                None => return,
            }
        }
    }

    /// The index of the last layer.
    pub(crate) fn top(&self) -> usize {
        self.decoded.len()
    }

    /// The last layer before percent-decoding.
    pub(crate) fn json(&self) -> usize {
        self.json
    }

    pub(crate) fn bytes(&self, layer: usize) -> &[u8] {
        match layer.checked_sub(1) {
            None => &self.text,
            Some(step) => self.decoded.get(step).map_or(&[], |step| &step.bytes),
        }
    }

    /// The text, with all bytes that were written.
    pub(crate) fn into_text(self) -> Vec<u8> {
        self.text
    }

    /// Maps a range of a layer to the last layer.
    pub(crate) fn up(&self, layer: usize, part: Range<usize>) -> Range<usize> {
        self.decoded
            .iter()
            .skip(layer)
            .fold(part, |part, step| step.up(&part))
    }

    /// Maps a range of a layer to the text.
    pub(crate) fn down(&self, layer: usize, part: Range<usize>) -> Range<usize> {
        let steps = self.decoded.iter().take(layer).rev();
        steps.fold(part, |part, step| {
            step.below(part.start)..step.below(part.end)
        })
    }

    /// Overwrites a byte of a layer with an ASCII byte, in the text as well. Returns `false`
    /// where the encoding has no room for it, as at the two-byte escape `\n`.
    pub(crate) fn write(&mut self, layer: usize, at: usize, byte: u8) -> bool {
        let Some(under) = layer.checked_sub(1) else {
            return self.text.get_mut(at).map(|old| *old = byte).is_some();
        };
        let Some(step) = self.decoded.get(under) else {
            return false;
        };
        let (start, end) = (step.below(at), step.below(at + 1));
        let written = match (step.code, end - start) {
            (_, 1) => self.write(under, start, byte),
            (LayerCode::Json, 6) => {
                self.write(under, start + 2, b'0')
                    && self.write(under, start + 3, b'0')
                    && self.write_hex(under, start + 4, byte)
            }
            (LayerCode::Percent, 3) => self.write_hex(under, start + 1, byte),
            _ => false,
        };
        if written
            && let Some(old) = self
                .decoded
                .get_mut(under)
                .and_then(|step| step.bytes.get_mut(at))
        {
            *old = byte;
        }
        written
    }

    /// Writes a byte as two hexadecimal digits, in the letter case of those that were there.
    pub(crate) fn write_hex(&mut self, layer: usize, at: usize, byte: u8) -> bool {
        let upper = self
            .bytes(layer)
            .get(at..at + 2)
            .is_some_and(|digits| digits.iter().any(u8::is_ascii_uppercase));
        let digits: &[u8; 16] = if upper {
            b"0123456789ABCDEF"
        } else {
            b"0123456789abcdef"
        };
        let digit = |value: u8| digits.get(usize::from(value)).copied().unwrap_or(b'0');
        self.write(layer, at, digit(byte >> 4)) && self.write(layer, at + 1, digit(byte & 15))
    }
}

impl DecodedLayer {
    /// Decodes `below`; `None` if it contains no escape.
    fn over(below: &[u8], code: LayerCode) -> Option<Self> {
        let (sign, unit): (u8, DecodeUnit) = match code {
            LayerCode::Json => (b'\\', escape),
            LayerCode::Percent => (b'%', percent),
        };
        let mut step = Self {
            code,
            bytes: Vec::new(),
            seams: Vec::new(),
        };
        let (mut done, mut at) = (0, 0);
        while let Some(next) = below.get(at..).and_then(|rest| memchr(sign, rest)) {
            at += next;
            let Some((byte, length)) = below.get(at..).and_then(unit) else {
                at += 1;
                continue;
            };
            step.bytes.extend_from_slice(below.get(done..at)?);
            step.bytes.push(byte);
            at += length;
            done = at;
            step.seams.push(Seam {
                at: u32::try_from(step.bytes.len()).ok()?,
                below: u32::try_from(at).ok()?,
            });
        }
        if done == 0 {
            return None;
        }
        step.bytes.extend_from_slice(below.get(done..)?);
        Some(step)
    }

    /// The offset in the layer below at which the byte `at` begins.
    fn below(&self, at: usize) -> usize {
        let after = self.seams.partition_point(|seam| seam.at as usize <= at);
        match after.checked_sub(1).and_then(|last| self.seams.get(last)) {
            Some(seam) => seam.below as usize + (at - seam.at as usize),
            None => at,
        }
    }

    /// Maps a range of the layer below to this one.
    fn up(&self, part: &Range<usize>) -> Range<usize> {
        let offset = |below: usize, slack: usize| {
            let after = self
                .seams
                .partition_point(|seam| seam.below as usize <= below);
            let at = match after.checked_sub(1).and_then(|last| self.seams.get(last)) {
                Some(seam) => seam.at as usize + (below - seam.below as usize),
                None => below,
            };
            match self.seams.get(after) {
                Some(next) => at.min(next.at as usize - slack),
                None => at,
            }
        };
        // A range that starts or ends within an escape includes the whole escape.
        offset(part.start, 1)..offset(part.end, 0)
    }
}

/// The byte that a JSON escape stands for, and the length of the escape. A character beyond
/// ASCII becomes byte 255, which no UTF-8 text contains.
fn escape(text: &[u8]) -> Option<(u8, usize)> {
    let byte = match text.get(1)? {
        sign @ (b'"' | b'\\' | b'/') => *sign,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => {
            let digits = std::str::from_utf8(text.get(2..6)?).ok()?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            let code = u32::from_str_radix(digits, 16).ok()?;
            let ascii = u8::try_from(code).ok().filter(u8::is_ascii);
            return Some((ascii.unwrap_or(u8::MAX), 6));
        }
        _ => return None,
    };
    Some((byte, 2))
}

fn percent(text: &[u8]) -> Option<(u8, usize)> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    let byte = digit(1)? * 16 + digit(2)?;
    Some((u8::try_from(byte).ok()?, 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_in_a_layer_is_in_the_text() {
        let text = br#"{"a":"{\"b\":\"\u0073k%2D1\\/2\"}"}"#;
        let layers = Layers::of(text.to_vec());
        let top = layers.bytes(layers.top());
        let at = memchr::memmem::find(top, b"sk-1/2").unwrap();
        let part = layers.down(layers.top(), at..at + 6);
        assert_eq!(text.get(part.clone()).unwrap(), br"\u0073k%2D1\\/2");
        assert_eq!(layers.up(0, part), at..at + 6);
    }

    #[test]
    fn a_byte_is_written_in_its_encoding() {
        let mut layers = Layers::of(br"\u0073\n%2D%2fx\u00e9".to_vec());
        assert_eq!(layers.bytes(layers.top()), b"s\n-/x\xff");
        for (at, fits) in [true, false, true, true, true, true]
            .into_iter()
            .enumerate()
        {
            assert_eq!(layers.write(layers.top(), at, b'j'), fits, "{at}");
        }
        assert_eq!(layers.into_text(), br"\u006a\n%6A%6aj\u006a");
    }
}
