//! Finds file paths in a text.

/// How many bytes of the start and of the end of a text are searched.
const SEARCHED_BYTES: usize = 32 * 1024;

/// A longer word is not taken for a path.
const MAX_PATH_BYTES: usize = 160;

/// Up to `limit` different paths in Unix or Windows form, in the order of the text, with
/// their line number where there is one: `src/x.rs:12`, `C:\a\b.py`. Of a long text only
/// the start and the end are searched.
pub(super) fn find_paths(text: &str, limit: usize) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for part in searched_parts(text) {
        for word in part.split(ends_word) {
            let word = word.trim_end_matches(['.', ':', ',']);
            if is_path(word) && !found.contains(&word) {
                found.push(word);
                if found.len() >= limit {
                    return found;
                }
            }
        }
    }
    found
}

/// The characters of ASCII that end a word, as bits.
const ENDS_WORD: u128 = {
    // White space and control characters.
    let mut ends = (1 << 0x7f) | ((1 << 0x21) - 1);
    let mut signs: &[u8] = b"()[]{}<>\"'`,;=|*";
    while let [sign, rest @ ..] = signs {
        ends |= 1 << *sign;
        signs = rest;
    }
    ends
};

#[inline]
fn ends_word(character: char) -> bool {
    if character.is_ascii() {
        return ENDS_WORD >> u32::from(character) & 1 != 0;
    }
    character.is_whitespace() || character.is_control()
}

fn searched_parts(text: &str) -> [&str; 2] {
    if text.len() <= 2 * SEARCHED_BYTES {
        return [text, ""];
    }
    let line_end = |part: &[u8], last: bool| {
        if last {
            memchr::memrchr(b'\n', part)
        } else {
            memchr::memchr(b'\n', part)
        }
    };
    let bytes = text.as_bytes();
    let head = bytes.get(..SEARCHED_BYTES).unwrap_or_default();
    let from = bytes.len() - SEARCHED_BYTES;
    let tail = bytes.get(from..).unwrap_or_default();
    [
        line_end(head, true)
            .and_then(|end| text.get(..end))
            .unwrap_or_default(),
        line_end(tail, false)
            .and_then(|end| text.get(from + end..))
            .unwrap_or_default(),
    ]
}

fn is_path(word: &str) -> bool {
    if !(4..=MAX_PATH_BYTES).contains(&word.len()) {
        return false;
    }
    let bytes = word.as_bytes();
    // Every path has one of these, and hardly any other word.
    if memchr::memchr3(b'/', b'\\', b'.', bytes).is_none() {
        return false;
    }
    if word.contains("://") || word.starts_with("//") {
        return false;
    }
    let has_letter = bytes.iter().any(u8::is_ascii_alphabetic);
    if let [drive, b':', b'\\' | b'/', ..] = bytes {
        return drive.is_ascii_alphabetic();
    }
    let has_separator = memchr::memchr2(b'/', b'\\', bytes).is_some();
    let has_root = ["/", "./", "../", "~/", ".\\", "..\\"]
        .iter()
        .any(|root| word.starts_with(root));
    if has_root && has_separator && has_letter {
        return true;
    }
    let (file, line) = match word.split_once(':') {
        Some((file, line)) => (file, Some(line)),
        None => (word, None),
    };
    let has_line = line.is_some_and(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    let has_extension = file.rsplit_once('.').is_some_and(|(stem, end)| {
        !stem.is_empty()
            && (1..=6).contains(&end.len())
            && end.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && end.bytes().any(|byte| byte.is_ascii_alphabetic())
    });
    has_letter && has_extension && (has_line || has_separator && line.is_none())
}
