//! The text of one event: its place in the stream and the time it was sent.
//!
//! `@00000042.1763764082000000000;` is always [`LEN`] bytes, so that an upstream writes it in
//! place and a proxy that joins several texts into one event still leaves every marker readable.

use memchr::memchr;

const PLACE: usize = 8;
const TIME: usize = 19;
/// Bytes of one marker.
pub(crate) const LEN: usize = PLACE + TIME + 3;

/// One event as the loader reads it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marker {
    /// Counts from 0 within its stream.
    pub(crate) place: u64,
    /// [`crate::clock::now_ns`] in the upstream when the event was handed to the socket.
    pub(crate) sent_ns: u64,
}

impl Marker {
    /// The marker as text; larger numbers than the fields hold lose their upper digits.
    pub(crate) fn write(self, out: &mut impl Extend<u8>) {
        out.extend([b'@']);
        out.extend(digits::<PLACE>(self.place));
        out.extend([b'.']);
        out.extend(digits::<TIME>(self.sent_ns));
        out.extend([b';']);
    }
}

fn digits<const N: usize>(mut number: u64) -> [u8; N] {
    let mut text = [b'0'; N];
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    text
}

/// Calls `found` for every marker in `text`, in order.
pub(crate) fn each(mut text: &[u8], mut found: impl FnMut(Marker)) {
    while let Some(rest) = memchr(b'@', text).and_then(|at| text.get(at + 1..)) {
        text = rest;
        let Some(marker) = parse(rest) else { continue };
        found(marker);
        text = rest.get(LEN - 1..).unwrap_or_default();
    }
}

fn parse(text: &[u8]) -> Option<Marker> {
    let (place, rest) = text.split_at_checked(PLACE)?;
    let (time, rest) = rest.strip_prefix(b".")?.split_at_checked(TIME)?;
    rest.strip_prefix(b";")?;
    Some(Marker {
        place: number(place)?,
        sent_ns: number(time)?,
    })
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_markers_are_read_back_one_by_one() {
        let sent = [(0, 7), (1, 1_763_764_082_000_000_000), (99_999_999, 1)]
            .map(|(place, sent_ns)| Marker { place, sent_ns });
        let mut text = b"@nothing @0000".to_vec();
        for marker in sent {
            marker.write(&mut text);
        }
        let mut read = Vec::new();
        each(&text, |marker| read.push(marker));
        assert_eq!(read, sent);
    }
}
