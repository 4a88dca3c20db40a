//! Decoding the escapes of strings.

use std::borrow::Cow;

use wide::u8x16;

/// Bytes that are decoded before they are appended to the text.
const DECODED: usize = 2 * 1024;

/// Bytes that are looked at at once.
const BLOCK: usize = 32;

/// Decodes the escapes of a JSON string's content. Lone surrogates become U+FFFD, because
/// they cannot be text. An invalid escape makes the result empty.
pub fn unescape(escaped: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\\', escaped.as_bytes()).is_none() {
        return escaped.into();
    }
    unescaped(escaped).unwrap_or_default().into()
}

fn unescaped(escaped: &str) -> Option<String> {
    // The decoded text is never longer than the escaped one.
    let mut text = String::with_capacity(escaped.len());
    let mut decoded = [0; DECODED];
    let mut rest = push_ascii(&mut text, escaped, &mut decoded)?;
    while let Some(at) = next_escape(rest.as_bytes()) {
        text.push_str(rest.get(..at)?);
        let behind = rest.get(at + 1..)?;
        let (first, after) = behind.split_at_checked(1)?;
        let (char, after) = match first {
            "u" => code_point(after)?,
            _ => (
                char::from(simple_escape(*first.as_bytes().first()?)?),
                after,
            ),
        };
        text.push(char);
        rest = push_ascii(&mut text, after, &mut decoded)?;
    }
    text.push_str(rest);
    Some(text)
}

/// The character that is escaped as a backslash and this byte.
#[inline]
fn simple_escape(byte: u8) -> Option<u8> {
    Some(match byte {
        b'n' => b'\n',
        b'"' | b'\\' | b'/' => byte,
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 0x08,
        b'f' => 0x0c,
        _ => return None,
    })
}

/// Decodes as much of the start of `escaped` as is ASCII with simple escapes only, and returns the
/// rest. Escapes are mostly close to each other, so whole blocks are copied, and the bytes after an
/// escape once more.
#[inline]
fn push_ascii<'e>(
    text: &mut String,
    escaped: &'e str,
    decoded: &mut [u8; DECODED],
) -> Option<&'e str> {
    let bytes = escaped.as_bytes();
    let (mut from, mut to) = (0, 0);
    while let Some(block) = bytes
        .get(from..)
        .and_then(|rest| rest.first_chunk::<BLOCK>())
    {
        let halves = block.as_chunks::<16>().0;
        let [first, second] = [halves.first()?, halves.get(1)?].map(|half| u8x16::new(*half));
        if (first | second).to_bitmask() != 0 {
            // Not ASCII.
            break;
        }
        if to + BLOCK > DECODED {
            text.push_str(str::from_utf8(decoded.get(..to)?).ok()?);
            to = 0;
        }
        *decoded.get_mut(to..)?.first_chunk_mut::<BLOCK>()? = *block;
        let [first, second] = [first, second].map(|half| {
            let found = half.simd_eq(u8x16::splat(b'\\'));
            found.to_bitmask()
        });
        let found = first | second << 16;
        let plain = (found.trailing_zeros() as usize).min(BLOCK);
        (from, to) = (from + plain, to + plain);
        if plain == BLOCK {
            continue;
        }
        let Some(byte) = bytes.get(from + 1).and_then(|byte| simple_escape(*byte)) else {
            break;
        };
        // There is room, since the block had a byte more.
        *decoded.get_mut(to)? = byte;
        (from, to) = (from + 2, to + 1);
    }
    text.push_str(str::from_utf8(decoded.get(..to)?).ok()?);
    escaped.get(from..)
}

/// Where the next backslash is. Most are close to each other, where a search costs more than a look
/// at eight bytes.
#[inline]
fn next_escape(escaped: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGHEST: u64 = ONES << 7;
    if let Some(chunk) = escaped.first_chunk::<8>() {
        let others = u64::from_le_bytes(*chunk) ^ (ONES * u64::from(b'\\'));
        // The lowest bit that is left is that of the first zero.
        let found = others.wrapping_sub(ONES) & !others & HIGHEST;
        if found != 0 {
            return usize::try_from(found.trailing_zeros() / 8).ok();
        }
    }
    memchr::memchr(b'\\', escaped)
}

/// Decodes the digits after a `\u`, with the second half of a surrogate pair. Returns the
/// character and the rest.
fn code_point(digits: &str) -> Option<(char, &str)> {
    let (high, after) = four_digits(digits)?;
    if let Some(char) = char::from_u32(high) {
        return Some((char, after));
    }
    let low = after.strip_prefix("\\u").and_then(four_digits);
    Some(match low {
        Some((low @ 0xDC00..=0xDFFF, after)) if high < 0xDC00 => {
            let point = 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00);
            (char::from_u32(point)?, after)
        }
        Some(_) | None => (char::REPLACEMENT_CHARACTER, after),
    })
}

fn four_digits(text: &str) -> Option<(u32, &str)> {
    let (digits, after) = text.split_at_checked(4)?;
    let mut value = 0;
    for digit in digits.chars() {
        value = value * 16 + digit.to_digit(16)?;
    }
    Some((value, after))
}
