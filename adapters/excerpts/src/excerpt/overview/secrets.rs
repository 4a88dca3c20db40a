//! What looks like a key, a token or a password in a line.

use std::sync::LazyLock;

use regex::bytes::Regex;

/// Keys and tokens with a prefix that their issuer defines, and private keys.
/// `src/secrets/patterns.rs` redacts more; here the prefixes are few, so that a search for them is
/// fast.
#[expect(
    clippy::expect_used,
    reason = "the pattern is constant, and a test builds it"
)]
static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?x-u)
        AKIA[A-Z0-9]{16} | ASIA[A-Z0-9]{16}
        | gh[pousr]_[A-Za-z0-9]{16} | github_pat_[A-Za-z0-9_]{16} | glpat-[A-Za-z0-9_-]{16}
        | sk-[A-Za-z0-9_-]{16} | AIza[A-Za-z0-9_-]{30} | xox[abprs]-[A-Za-z0-9-]{10}
        | npm_[A-Za-z0-9]{16} | pypi-[A-Za-z0-9_-]{16} | hf_[A-Za-z0-9]{16}
        | -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY";
    Regex::new(pattern).expect("one pattern")
});

/// Names that announce a secret.
const NAMES: [&[u8]; 8] = [
    b"token",
    b"secret",
    b"password",
    b"passwd",
    b"api_key",
    b"apikey",
    b"secret_key",
    b"access_key",
];

/// The shortest value of a name that counts.
const MIN_VALUE_BYTES: usize = 8;

/// The places in a text where a key or a token with a known prefix begins.
pub(super) fn tokens(text: &[u8]) -> impl Iterator<Item = usize> {
    let is_start = |at: &usize| {
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        before.is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
    };
    let found = TOKENS.find_iter(text).map(|found| found.start());
    found.filter(is_start)
}

/// Where a line gives a value to a name that announces a secret: `API_TOKEN=3f9a…`.
pub(super) fn named(line: &[u8]) -> Option<usize> {
    memchr::memchr2_iter(b'=', b':', line).find(|at| {
        let name = line.get(..*at).unwrap_or_default().trim_ascii_end();
        let name = name.strip_suffix(b"\"").unwrap_or(name);
        let name = name.strip_suffix(b"'").unwrap_or(name);
        // The last letters of all these names.
        let may_be_named = name
            .last()
            .is_some_and(|last| matches!(last.to_ascii_lowercase(), b'n' | b't' | b'd' | b'y'));
        let is_named = may_be_named
            && NAMES.iter().any(|known| {
                let start = name.len().checked_sub(known.len());
                let end = start.and_then(|start| name.get(start..));
                end.is_some_and(|end| end.eq_ignore_ascii_case(known))
            });
        is_named && is_value(line.get(at + 1..).unwrap_or_default())
    })
}

/// Whether what follows a name may be a secret: long enough, with letters and digits, and no call.
fn is_value(rest: &[u8]) -> bool {
    let rest = rest.trim_ascii_start();
    let quoted = matches!(rest.first(), Some(b'"' | b'\''));
    let value = if quoted {
        rest.get(1..).unwrap_or_default()
    } else {
        rest
    };
    let belongs = |byte: &&u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'_' | b'-' | b'.' | b'~')
    };
    let length = value.iter().take_while(belongs).count();
    let written = value.get(..length).unwrap_or_default();
    length >= MIN_VALUE_BYTES
        && written.iter().any(u8::is_ascii_digit)
        && written.iter().any(u8::is_ascii_alphabetic)
        && !matches!(value.get(length), Some(b'(' | b'['))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tokens_and_passwords_are_told_from_other_values() {
        for (line, expected) in [
            ("+token = \"9f8e7d6c5b4a\"", true),
            ("+  API_KEY: k4-zu8-99alpha", true),
            ("+\"password\": \"tide4harbour\"", true),
            ("+let token = next_token(4);", false),
            ("+token = short1", false),
            ("+the token: see chapter", false),
            ("+digest = \"9f8e7d6c5b4a9f8e7d6c5b4a\"", false),
        ] {
            assert_eq!(named(line.as_bytes()).is_some(), expected, "{line}");
        }
        let prefixed = [
            format!("AKIA{}", "Q7".repeat(8)),
            format!("ghp_{}", "a1".repeat(10)),
            format!("-----BEGIN RSA {} KEY-----", "PRIVATE"),
        ];
        for key in prefixed {
            assert_eq!(
                tokens(format!("x = {key}").as_bytes()).next(),
                Some(4),
                "{key}"
            );
        }
        assert_eq!(tokens(b"9f8e7d6c5b4a9f8e7d6c5b4a9f8e7d6c").next(), None);
        assert_eq!(tokens(b"+name: task-management-service-one").next(), None);
    }
}
