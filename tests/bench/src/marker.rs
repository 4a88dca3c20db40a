//! The text of an event: its index in the stream and the time it was sent, such as
//! `@00000042.1763764082000000000;`. A marker always has [`LEN`] bytes, and it stays readable when
//! a proxy joins several texts into one event.

use memchr::memchr;

const INDEX_DIGITS: usize = 8;
const TIME_DIGITS: usize = 19;
/// The length of a marker in bytes.
pub(crate) const LEN: usize = INDEX_DIGITS + TIME_DIGITS + 3;

/// The content of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marker {
    /// The index of the event in its stream, from 0.
    pub(crate) index: u64,
    /// The time ([`crate::clock::now_ns`]) at which the upstream passed the event to the socket.
    pub(crate) sent_ns: u64,
}

impl Marker {
    /// Writes the marker as text. A number that is too large for its field loses its upper digits.
    pub(crate) fn write(self, out: &mut impl Extend<u8>) {
        out.extend([b'@']);
        out.extend(digits::<INDEX_DIGITS>(self.index));
        out.extend([b'.']);
        out.extend(digits::<TIME_DIGITS>(self.sent_ns));
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
pub(crate) fn for_each(mut text: &[u8], mut found: impl FnMut(Marker)) {
    while let Some(rest) = memchr(b'@', text).and_then(|at| text.get(at + 1..)) {
        text = rest;
        let Some(marker) = parse(rest) else { continue };
        found(marker);
        text = rest.get(LEN - 1..).unwrap_or_default();
    }
}

fn parse(text: &[u8]) -> Option<Marker> {
    let (place, rest) = text.split_at_checked(INDEX_DIGITS)?;
    let (time, rest) = rest.strip_prefix(b".")?.split_at_checked(TIME_DIGITS)?;
    rest.strip_prefix(b";")?;
    Some(Marker {
        index: number(place)?,
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
        let sent =
            [(0, 7), (1, 1_763_764_082_000_000_000), (99_999_999, 1)].map(|(place, sent_ns)| {
                Marker {
                    index: place,
                    sent_ns,
                }
            });
        let mut text = b"@nothing @0000".to_vec();
        for marker in sent {
            marker.write(&mut text);
        }
        let mut read = Vec::new();
        for_each(&text, |marker| read.push(marker));
        assert_eq!(read, sent);
    }
}
