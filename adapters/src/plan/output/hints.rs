//! Paths that a text names.

/// Bytes of the start and of the end of a text that are looked at.
const LOOK: usize = 32 * 1024;

/// Longer words are no paths.
const LONGEST: usize = 160;

/// Up to `most` different paths of Unix or Windows form in the order of the text,
/// with the line where one is given: `src/x.rs:12`, `C:\a\b.py`. A long text is
/// looked at near its start and its end.
pub(super) fn paths(text: &str, most: usize) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for part in ends(text) {
        for word in part.split(|character: char| {
            character.is_whitespace()
                || character.is_control()
                || "()[]{}<>\"'`,;=|*".contains(character)
        }) {
            let word = word.trim_end_matches(['.', ':', ',']);
            if is_path(word) && !found.contains(&word) {
                found.push(word);
                if found.len() >= most {
                    return found;
                }
            }
        }
    }
    found
}

fn ends(text: &str) -> [&str; 2] {
    if text.len() <= 2 * LOOK {
        return [text, ""];
    }
    let lines = |part: &[u8], first: bool| {
        if first {
            memchr::memrchr(b'\n', part)
        } else {
            memchr::memchr(b'\n', part)
        }
    };
    let bytes = text.as_bytes();
    let head = bytes.get(..LOOK).unwrap_or_default();
    let from = bytes.len() - LOOK;
    let tail = bytes.get(from..).unwrap_or_default();
    [
        lines(head, true)
            .and_then(|end| text.get(..end))
            .unwrap_or_default(),
        lines(tail, false)
            .and_then(|end| text.get(from + end..))
            .unwrap_or_default(),
    ]
}

fn is_path(word: &str) -> bool {
    if word.len() < 4 || word.len() > LONGEST || word.contains("://") || word.starts_with("//") {
        return false;
    }
    let bytes = word.as_bytes();
    let named = bytes.iter().any(u8::is_ascii_alphabetic);
    if let [drive, b':', b'\\' | b'/', ..] = bytes {
        return drive.is_ascii_alphabetic();
    }
    let slashed = memchr::memchr2(b'/', b'\\', bytes).is_some();
    let rooted = ["/", "./", "../", "~/", ".\\", "..\\"]
        .iter()
        .any(|root| word.starts_with(root));
    if rooted && slashed && named {
        return true;
    }
    let (file, line) = match word.split_once(':') {
        Some((file, line)) => (file, Some(line)),
        None => (word, None),
    };
    let lined = line.is_some_and(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    let ended = file.rsplit_once('.').is_some_and(|(stem, end)| {
        !stem.is_empty()
            && (1..=6).contains(&end.len())
            && end.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && end.bytes().any(|byte| byte.is_ascii_alphabetic())
    });
    named && ended && (lined || slashed && line.is_none())
}
