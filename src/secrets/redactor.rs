//! Finds and replaces secrets in text that is about to be logged, recorded or sent.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use aho_corasick::AhoCorasick;
use regex::bytes::Regex;
use xxhash_rust::xxh3::xxh3_128;

use super::Secret;
use super::decoded::{Decoded, Encoding};
use super::patterns::{self, constant_regex};

/// The replacement of a secret.
const REDACTED: &str = "[redacted]";

/// Shorter secrets are found only as whole words, because they occur inside many others.
const MIN_EMBEDDED_LENGTH: usize = 6;

/// This many leading bytes of a longer secret count as the secret: texts get cut off, and
/// providers echo keys in part.
const PREFIX_LENGTH: usize = 16;

/// Maximum levels of JSON inside JSON, of HTML, of percent-encoding, or of all of them; nothing
/// real nests deeper.
const MAX_LAYERS: usize = 8;

/// Every way to decode base64 and hexadecimal digits.
const RUNS: [Encoding; 6] = [
    Encoding::Base64(0),
    Encoding::Base64(1),
    Encoding::Base64(2),
    Encoding::Base64(3),
    Encoding::Hex(0),
    Encoding::Hex(1),
];

/// The marks that replace secrets: [`REDACTED`], and with a number in bundles.
static MARKS: LazyLock<Regex> =
    LazyLock::new(|| constant_regex(r"(?-u)(?:\[redacted(?:-[0-9]+)?\])+"));

/// Finds secrets in text: the known ones, and text that looks like a secret. It finds them as plain
/// text, behind nested JSON escapes and character references of HTML, percent-encoded fully or in
/// part, and in base64 or hexadecimal at any offset of the encoded text. A known secret is found
/// even if its end is cut off.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<Secret>,
    /// The user's own patterns for secrets.
    patterns: Arc<[Regex]>,
    /// Matches the distinct prefixes of the secrets; `None` if there are no secrets.
    prefixes: Option<AhoCorasick>,
    /// The length of the shortest of these prefixes.
    shortest_prefix: usize,
    /// For each prefix, the indexes of the secrets that begin with it.
    secrets_by_prefix: Vec<Vec<usize>>,
}

/// A secret that was found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecretMatch {
    /// Its byte range in the text.
    pub(crate) range: Range<usize>,
    /// Its index in the list of known secrets; `None` if it only looks like a secret.
    pub(crate) known_index: Option<usize>,
    /// What was found, decoded, if it only looks like a secret. It tells secrets apart.
    pub(crate) content: ContentHash,
}

/// The length and a hash of the content of a match, which may be as long as its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ContentHash {
    length: usize,
    hash: u128,
}

impl ContentHash {
    fn of(content: &[u8]) -> Self {
        Self {
            length: content.len(),
            hash: xxh3_128(content),
        }
    }
}

/// What a search looks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sought {
    /// Known secrets, and text that looks like a secret.
    Any,
    /// Known secrets only.
    Known,
}

impl Redactor {
    /// A redactor for `secrets` and for text that looks like a secret.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let secrets: Vec<Secret> = secrets.into_iter().cloned().collect();
        let mut by_prefix: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (index, secret) in secrets.iter().enumerate() {
            let text = secret.expose().as_bytes();
            let prefix = text.get(..PREFIX_LENGTH).unwrap_or(text);
            by_prefix.entry(prefix).or_default().push(index);
        }
        let prefixes = AhoCorasick::new(by_prefix.keys())
            .ok()
            .filter(|_| !by_prefix.is_empty());
        let shortest_prefix = by_prefix.keys().map(|prefix| prefix.len()).min();
        let secrets_by_prefix = by_prefix.into_values().collect();
        Self {
            shortest_prefix: shortest_prefix.unwrap_or_default(),
            secrets,
            patterns: Arc::default(),
            prefixes,
            secrets_by_prefix,
        }
    }

    /// Adds the user's `patterns`. The first capture group of a match is the secret, or the
    /// whole match if the pattern has no group.
    #[must_use]
    pub fn with_patterns(mut self, patterns: &[Regex]) -> Self {
        self.patterns = patterns.into();
        self
    }

    /// This redactor with more known secrets.
    pub(crate) fn and(&self, more: &[Secret]) -> Self {
        Self::new(self.secrets.iter().chain(more)).with_patterns(&self.patterns)
    }

    /// The number of known secrets.
    pub(crate) fn secret_count(&self) -> usize {
        self.secrets.len()
    }

    /// The secrets in a text, plain or encoded. The ranges neither overlap nor touch, and are
    /// sorted; marks of an earlier redaction are left out.
    pub(crate) fn find(&self, text: &[u8]) -> Vec<SecretMatch> {
        settle(text, self.find_encoded(text))
    }

    /// The secrets in a text, plain or encoded, in no particular order.
    pub(crate) fn find_encoded(&self, text: &[u8]) -> Vec<SecretMatch> {
        self.find_within(text, MAX_LAYERS, Sought::Any)
    }

    fn find_within(&self, text: &[u8], layers: usize, sought: Sought) -> Vec<SecretMatch> {
        let mut found = self.find_plain(text, sought);
        if layers == 0 {
            return found;
        }
        // What else is encoded is looked for behind the innermost escapes. One way to decode at
        // each level: two would double the work with each level.
        for escapes in [Encoding::Json, Encoding::Html] {
            if let Some(decoded) = Decoded::of(text, escapes) {
                found.extend(self.find_decoded(&decoded, layers - 1, sought));
                return found;
            }
        }
        if let Some(percent) = Decoded::of(text, Encoding::Percent) {
            found.extend(self.find_decoded(&percent, layers - 1, sought));
        }
        for encoding in RUNS {
            if let Some(runs) = Decoded::of(text, encoding) {
                found.extend(self.find_decoded(&runs, 0, sought));
            }
        }
        found
    }

    fn find_decoded(
        &self,
        decoded: &Decoded,
        layers: usize,
        sought: Sought,
    ) -> impl Iterator<Item = SecretMatch> {
        let found = self.find_within(&decoded.bytes, layers, sought).into_iter();
        found.map(|secret| SecretMatch {
            range: decoded.source(secret.range),
            ..secret
        })
    }

    /// The secrets in `text` that are not encoded, in no particular order.
    fn find_plain(&self, text: &[u8], sought: Sought) -> Vec<SecretMatch> {
        let known = self.find_known(text).into_iter();
        let mut found: Vec<SecretMatch> = known
            .map(|(range, index)| SecretMatch {
                range,
                known_index: Some(index),
                content: ContentHash::default(),
            })
            .collect();
        if sought == Sought::Any {
            let similar = patterns::find(text, &self.patterns).into_iter();
            found.extend(similar.map(|range| SecretMatch {
                content: ContentHash::of(text.get(range.clone()).unwrap_or_default()),
                range,
                known_index: None,
            }));
        }
        found
    }

    /// The known secrets in `text`, by their index in the list.
    fn find_known(&self, text: &[u8]) -> Vec<(Range<usize>, usize)> {
        let hits = self.prefixes.iter();
        let hits = hits.flat_map(|prefixes| prefixes.find_overlapping_iter(text));
        let found = hits.filter_map(|hit| {
            let rest = text.get(hit.start()..)?;
            let candidates = self.secrets_by_prefix.get(hit.pattern().as_usize())?;
            let matching = candidates.iter().map(|index| {
                let known = self.secrets.get(*index).map_or("", Secret::expose);
                let pairs = rest.iter().zip(known.as_bytes());
                (pairs.take_while(|(a, b)| a == b).count(), Reverse(*index))
            });
            let (length, Reverse(index)) = matching.max()?;
            let range = hit.start()..hit.start() + length;
            let is_found = length >= MIN_EMBEDDED_LENGTH || is_whole_word(text, &range);
            is_found.then_some((range, index))
        });
        found.collect()
    }

    /// `text` with every secret replaced by `[redacted]`; borrowed if it contains none.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        replace(text, self.find(text.as_bytes()))
    }

    /// The same for known secrets only, at a fraction of the time. For names and ids that the
    /// client chose, which may look like secrets.
    pub fn redact_known<'a>(&self, text: &'a str) -> Cow<'a, str> {
        // No form of a secret is shorter than the beginning by which it is found.
        if self.prefixes.is_none() || text.len() < self.shortest_prefix {
            return Cow::Borrowed(text);
        }
        let found = self.find_within(text.as_bytes(), MAX_LAYERS, Sought::Known);
        replace(text, settle(text.as_bytes(), found))
    }
}

/// The text with these matches, which [`settle`] made, replaced by `[redacted]`.
fn replace(text: &str, found: Vec<SecretMatch>) -> Cow<'_, str> {
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut clean: Vec<u8> = Vec::new();
    let mut done = 0;
    for secret in found {
        let before = text.as_bytes().get(done..secret.range.start);
        clean.extend_from_slice(before.unwrap_or_default());
        clean.extend_from_slice(REDACTED.as_bytes());
        done = secret.range.end;
    }
    clean.extend_from_slice(text.as_bytes().get(done..).unwrap_or_default());
    // A known secret that is cut off may end inside a character.
    Cow::Owned(String::from_utf8_lossy(&clean).into_owned())
}

/// Leaves out what is inside a mark of an earlier redaction, and merges what overlaps or
/// touches. Of merged secrets the first known one counts, else the longest.
pub(crate) fn settle(text: &[u8], found: Vec<SecretMatch>) -> Vec<SecretMatch> {
    let mut settled: Vec<SecretMatch> = Vec::new();
    if found.is_empty() {
        return settled;
    }
    let marks: Vec<Range<usize>> = MARKS.find_iter(text).map(|hit| hit.range()).collect();
    let outside_of_marks = found.into_iter().filter_map(|mut secret| {
        let first = marks.partition_point(|mark| mark.end <= secret.range.start);
        for mark in marks.iter().skip(first) {
            if mark.start >= secret.range.end {
                break;
            }
            if mark.start <= secret.range.start && secret.range.end <= mark.end {
                return None;
            }
            // Half a mark would not be recognised as one.
            secret.range.start = secret.range.start.min(mark.start);
            secret.range.end = secret.range.end.max(mark.end);
        }
        Some(secret)
    });
    let mut found: Vec<SecretMatch> = outside_of_marks.collect();
    found.sort_by_key(|secret| (secret.range.start, Reverse(secret.range.end)));
    for secret in found {
        match settled.last_mut() {
            Some(last) if secret.range.start <= last.range.end => {
                last.range.end = last.range.end.max(secret.range.end);
                if last.known_index.is_none()
                    && (secret.known_index.is_some() || secret.content.length > last.content.length)
                {
                    last.known_index = secret.known_index;
                    last.content = secret.content;
                }
            }
            _ => settled.push(secret),
        }
    }
    settled
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redactor]")
    }
}

/// Whether a range is a whole word: no letter or digit is next to it.
fn is_whole_word(text: &[u8], range: &Range<usize>) -> bool {
    let is_alphanumeric = |at: Option<usize>| {
        at.and_then(|at| text.get(at))
            .is_some_and(u8::is_ascii_alphanumeric)
    };
    !is_alphanumeric(range.start.checked_sub(1)) && !is_alphanumeric(Some(range.end))
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

    use super::*;

    const KEY: &str = "sk-canary/7f3e+9a1b2c4d";

    fn redact(text: &str) -> String {
        Redactor::new([&Secret::new(KEY).unwrap()])
            .redact(text)
            .into_owned()
    }

    #[test]
    fn a_plain_key_is_redacted() {
        assert_eq!(
            redact(&format!("Authorization: Bearer {KEY}, again {KEY}.")),
            "Authorization: Bearer [redacted], again [redacted]."
        );
    }

    #[test]
    fn an_encoded_key_is_redacted_wherever_it_is() {
        let encoded = utf8_percent_encode(KEY, NON_ALPHANUMERIC).to_string();
        assert_eq!(
            redact(&format!("?key={encoded}&x=1")),
            "?key=[redacted]&x=1"
        );
        for user in ["", "u:", "me:", "you:"] {
            for engine in [&STANDARD, &URL_SAFE] {
                let text = format!("Basic {}", engine.encode(format!("{user}{KEY}, then more")));
                let clean = redact(&text);
                assert!(clean.contains(REDACTED), "{user} {clean}");
                let left: String = clean.split(REDACTED).collect();
                assert!(left.len() + KEY.len() < text.len(), "{left}");
            }
        }
    }

    #[test]
    fn a_key_that_is_cut_off_is_redacted() {
        let long = "sk-proj-0123456789abcdefghijklmnop";
        let redactor = Redactor::new([&Secret::new(long).unwrap()]);
        assert_eq!(
            redactor.redact("key sk-proj-0123456789abc"),
            "key [redacted]"
        );
        assert_eq!(
            redactor.redact("keys begin with sk-proj-0"),
            "keys begin with sk-proj-0"
        );
    }

    #[test]
    fn text_without_a_key_is_borrowed() {
        let redactor = Redactor::new([&Secret::new(KEY).unwrap()]);
        assert!(matches!(
            redactor.redact("ünïcode, no key"),
            Cow::Borrowed(_)
        ));
        let short = Redactor::new([&Secret::new("gate").unwrap()]);
        assert_eq!(
            short.redact("investigate the gate"),
            "investigate the [redacted]"
        );
    }

    #[test]
    fn a_known_key_is_redacted_out_of_names() {
        let redactor = Redactor::new([&Secret::new(KEY).unwrap()]);
        let percent = utf8_percent_encode(KEY, NON_ALPHANUMERIC).to_string();
        for (name, clean) in [
            (KEY.to_owned(), "[redacted]"),
            (format!("mock/{KEY}"), "mock/[redacted]"),
            (percent, "[redacted]"),
            (
                "sk-ant-api03-AbCdEf0123456789_x".to_owned(),
                "sk-ant-api03-AbCdEf0123456789_x",
            ),
            ("m".to_owned(), "m"),
        ] {
            assert_eq!(redactor.redact_known(&name), clean);
        }
        let encoded = STANDARD.encode(KEY);
        assert!(redactor.redact_known(&encoded).contains(REDACTED));
    }

    #[test]
    fn what_looks_like_a_secret_is_redacted() {
        let token = "ghp_0123456789abcdefghij";
        let patterns = [Regex::new("customer-([0-9]+)").unwrap()];
        let redactor = Redactor::default().with_patterns(&patterns);
        let encoded = STANDARD.encode(format!("it is {token}!"));
        for (text, clean) in [
            (format!("said {token}."), "said [redacted].".to_owned()),
            (
                "no customer-4711".to_owned(),
                "no customer-[redacted]".to_owned(),
            ),
            (
                "Bearer ghp_0123456789abcdefghij".to_owned(),
                "Bearer [redacted]".to_owned(),
            ),
            (
                "postgres://me:pass@db.example".to_owned(),
                "postgres://[redacted]:[redacted]@db.example".to_owned(),
            ),
        ] {
            assert_eq!(redactor.redact(&text), clean);
            assert_eq!(redactor.redact(&clean), clean);
        }
        assert!(redactor.redact(&encoded).contains(REDACTED));
    }

    #[test]
    fn a_key_is_redacted_in_every_encoding() {
        for (text, clean) in [
            // Escapes of JSON, and of JSON in JSON.
            (
                r#"{"a":"sk-canary\/7f3e+9a1b2c4d"}"#,
                r#"{"a":"[redacted]"}"#,
            ),
            (
                r#"{"a":"sk-canary\\\/7f3e+9a1b2c4d."}"#,
                r#"{"a":"[redacted]."}"#,
            ),
            (r"\u0073k-canary/7f3e\u002b9a1b2c4d", "[redacted]"),
            // Percent-encoded in part, in either case, and twice.
            ("sk-canary%2f7f3e+9a1b2c4d", "[redacted]"),
            ("%73k-canary/7f3e%2B9a1b2c4d&b", "[redacted]&b"),
            ("sk-canary%252F7f3e%252B9a1b2c4d", "[redacted]"),
            (
                "%2525252573k-canary%252525252F7f3e%252525252B9a1b2c4d",
                "[redacted]",
            ),
            // Character references of HTML, also in JSON and escaped twice.
            (
                "<p>sk-canary&#x2F;7f3e&#43;9a1b2c4d</p>",
                "<p>[redacted]</p>",
            ),
            ("sk-canary&sol;7f3e&plus;9a1b2c4d&amp;x", "[redacted]&amp;x"),
            ("&#0115;k&#X2D;canary&#47;7f3e+9a1b2c4d", "[redacted]"),
            ("sk-canary&amp;#x2F;7f3e&amp;amp;#43;9a1b2c4d", "[redacted]"),
            (
                r#"{"sk-canary&#x2f;7f3e\u0026plus;9a1b2c4d":"a"}"#,
                r#"{"[redacted]":"a"}"#,
            ),
            ("key=sk-canary%26%23x2F%3B7f3e+9a1b2c4d", "key=[redacted]"),
            // Hexadecimal.
            (
                "x 736b2d63616e6172792f376633652b3961316232633464 y",
                "x [redacted] y",
            ),
            (
                "0736B2D63616E6172792F376633652B3961316232633464",
                "0[redacted]",
            ),
        ] {
            assert_eq!(redact(text), clean, "{text}");
        }
    }
}
