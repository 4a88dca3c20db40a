//! Finds secrets that are not configured, by the format of the value (well-known token
//! prefixes, private keys, credentials in URLs) or by the name in front of it (`api_key=`).

use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::{Captures, Regex};

/// Keys and tokens with a prefix that their issuer defines.
const TOKENS: &str = r"(?x-u)
    \b(
      sk-[A-Za-z0-9_-]{16,}
    | gsk_[A-Za-z0-9]{16,}
    | xai-[A-Za-z0-9]{16,}
    | AIza[A-Za-z0-9_-]{30,}
    | gh[pousr]_[A-Za-z0-9]{16,}
    | github_pat_[A-Za-z0-9_]{16,}
    | glpat-[A-Za-z0-9_-]{16,}
    | A(?:KIA|SIA)[A-Z0-9]{16}
    | hf_[A-Za-z0-9]{16,}
    | nvapi-[A-Za-z0-9_-]{16,}
    | r8_[A-Za-z0-9]{16,}
    | xox[a-z]-[A-Za-z0-9-]{10,}
    | npm_[A-Za-z0-9]{16,}
    | pypi-[A-Za-z0-9_-]{16,}
    | rsp_[A-Za-z0-9]{16,}
    )";

/// JSON web tokens. A regex of their own, apart from [`TOKENS`]: a candidate that fails late
/// must not make the search start again at candidates inside it.
const JSON_WEB_TOKENS: &str =
    r"(?-u)\b(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)";

const CREDENTIALS: &str = r"(?i-u)\b(?:bearer|basic)[ \t+]+([a-z0-9._~+/=-]{16,})";

const PRIVATE_KEYS: &str = r"(?x-u)
    -----BEGIN\ [A-Z0-9\ ]*PRIVATE\ KEY(?:\ BLOCK)?-----\s*
    ((?:[A-Za-z0-9+/=:,]|-[A-Za-z0-9])+ (?:\s+(?:[A-Za-z0-9+/=:,]|-[A-Za-z0-9])+)*)";

/// User name and password in a URL.
const USER_INFO: &str = r#"(?-u)\b[A-Za-z][A-Za-z0-9+.-]{1,20}://([^\x00-\x20/"'\\:@?#<>]*)(?::([^\x00-\x20/"'\\@?#<>]+))?@"#;

const QUERIES: &str = r#"(?i-u)[?&](?:key|sig|signature|auth|access|session|jwt|code|x-amz-[a-z-]+|x-goog-[a-z-]+)=([^\x00-\x20&"'\\<>#]{8,})"#;

/// A name that announces a secret, the separator, and the value in double quotes, in single
/// quotes or unquoted.
const NAMED: &str = r#"(?ix-u)
    (api[_-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key|private[_-]?key|account[_-]?key
    |encryption[_-]?key|signing[_-]?key|auth[_-]?key
    |client[_-]?secret|secret|passw(?:or)?d|passphrase|pwd|authorization|credentials?|token)
    ["']?[\ \t]*(:=|=>|:|=)[\ \t]*
    (?:"(?:(?:bearer|basic|token)[\ ])?([^\x00-\x1f"\\]+)|'([^\x00-\x1f'"\\]+)
    |(?:(?:bearer|basic|token)[\ ])?([^\x00-\x20"'`\\,;&<>(){}\[\]|]{6,}))"#;

/// All patterns, compiled at first use.
static PATTERNS: LazyLock<SecretPatterns> = LazyLock::new(SecretPatterns::new);

type Property = fn(&[u8]) -> bool;

struct SecretPatterns {
    /// Patterns whose first group is a secret if it has this property.
    shapes: [(Regex, Property); 5],
    user_info: Regex,
    named: Regex,
}

/// Compiles a pattern that is a constant.
#[expect(
    clippy::expect_used,
    reason = "the patterns are constant, and without one a secret would stay"
)]
pub(crate) fn constant_regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern that is tested")
}

/// The ranges of text that look like a secret, and those that the user's patterns match
/// (the first capture group, or the whole match without one), in no particular order.
pub(super) fn find(text: &[u8], own: &[Regex]) -> Vec<Range<usize>> {
    let mut found = PATTERNS.find(text);
    for regex in own {
        let parts = regex.captures_iter(text).filter_map(|hit| {
            let index = usize::from(hit.len() > 1);
            group(&hit, index).or_else(|| group(&hit, 0))
        });
        found.extend(parts.filter(|part| {
            let bytes = text.get(part.clone()).unwrap_or_default();
            !bytes.is_empty() && !bytes.contains(&0)
        }));
    }
    found
}

impl SecretPatterns {
    fn new() -> Self {
        Self {
            shapes: [
                (constant_regex(TOKENS), has_digit),
                (constant_regex(JSON_WEB_TOKENS), is_mixed),
                (constant_regex(CREDENTIALS), is_mixed),
                (constant_regex(QUERIES), is_mixed),
                (constant_regex(PRIVATE_KEYS), |_| true),
            ],
            user_info: constant_regex(USER_INFO),
            named: constant_regex(NAMED),
        }
    }

    fn find(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for (regex, is_secret) in &self.shapes {
            let values = regex
                .captures_iter(text)
                .filter_map(|hit| hit.get(1))
                .filter(|value| is_secret(value.as_bytes()));
            found.extend(values.map(|value| value.range()));
        }
        for hit in self.user_info.captures_iter(text) {
            let user = group(&hit, 1).filter(|user| !user.is_empty());
            match group(&hit, 2) {
                Some(password) => {
                    found.extend(user);
                    found.push(password);
                }
                None => found.extend(user.filter(|user| user.len() >= 16)),
            }
        }
        for hit in self.named.captures_iter(text) {
            found.extend(named_value(&hit, text));
        }
        found
    }
}

fn group(hit: &Captures<'_>, index: usize) -> Option<Range<usize>> {
    hit.get(index).map(|group| group.range())
}

/// The value in a match of [`NAMED`], unless it is plainly something else: a token with its
/// log probability, a type, a call, a placeholder.
fn named_value(hit: &Captures<'_>, text: &[u8]) -> Option<Range<usize>> {
    let name = hit.get(1)?;
    let sign = hit.get(2)?.as_bytes();
    let quoted = group(hit, 3).or_else(|| group(hit, 4));
    let bare = group(hit, 5);
    let part = quoted.clone().or(bare)?;
    let value = text.get(part.clone())?;
    let lower_case_name = name.as_bytes().to_ascii_lowercase();
    let weak = matches!(&*lower_case_name, b"token" | b"credential" | b"credentials");
    let before = name.start().checked_sub(1).and_then(|at| text.get(at));
    let whole_name = !before.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let blank = value.iter().any(u8::is_ascii_whitespace);
    if value
        .first()
        .is_some_and(|byte| b"$<{[(*,:;&".contains(byte))
    {
        return None;
    }
    let secret = if quoted.is_some() {
        if weak && whole_name {
            value.len() >= 8 && !blank && is_mixed(value)
        } else {
            value.len() >= 6 && (!blank || has_digit(value)) && value.first() != Some(&b' ')
        }
    } else {
        // Environment variables are in capitals; other assignments may be program text.
        let mut letters = name.as_bytes().iter();
        let environment = sign == b"=" && !letters.any(u8::is_ascii_lowercase);
        environment
            || value.len() >= 8 && is_mixed(value) && value.iter().any(u8::is_ascii_alphabetic)
    };
    secret.then_some(part)
}

fn has_digit(value: &[u8]) -> bool {
    value.iter().any(u8::is_ascii_digit)
}

/// Whether a value does not look like a word of a natural language.
fn is_mixed(value: &[u8]) -> bool {
    has_digit(value)
        || value.iter().any(|byte| b"+=".contains(byte))
        || value.iter().any(u8::is_ascii_lowercase)
            && value
                .iter()
                .filter(|byte| byte.is_ascii_uppercase())
                .count()
                > 3
}
