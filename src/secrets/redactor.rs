//! Finds and replaces secrets in text that is about to be logged, recorded or sent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use regex::bytes::Regex;

use super::Secret;
use super::encoded::EncodedRuns;
use super::layers::Layers;
use super::patterns;

/// The replacement of a secret.
const REDACTED: &str = "[redacted]";

/// Shorter secrets are found only as whole words, because they occur inside many others.
const MIN_EMBEDDED_LENGTH: usize = 6;

/// This many leading bytes of a longer secret count as the secret: texts get cut off, and
/// providers echo keys in part.
const PREFIX_LENGTH: usize = 16;

/// Finds secrets in text: the known ones, and text that looks like a secret. It finds them
/// as plain text, behind nested JSON escapes, percent-encoded fully or in part, and in base64
/// or hexadecimal at any offset of the encoded text. A known secret is found even if its end
/// is cut off.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<Secret>,
    /// The user's own patterns for secrets.
    patterns: Arc<[Regex]>,
    /// Matches the distinct prefixes of the secrets; `None` if there are no secrets.
    prefixes: Option<AhoCorasick>,
    /// For each prefix, the indexes of the secrets that begin with it.
    secrets_by_prefix: Vec<Vec<usize>>,
}

/// A secret that was found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecretMatch {
    /// Its byte range in the text.
    pub(crate) range: Range<usize>,
    /// Its index in [`Redactor::secrets`]; `None` if it only looks like a secret.
    pub(crate) known_index: Option<usize>,
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
        let prefixes = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(by_prefix.keys())
            .ok()
            .filter(|_| !by_prefix.is_empty());
        let secrets_by_prefix = by_prefix.into_values().collect();
        Self {
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

    pub(crate) fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// The secrets in `text` that are not encoded, in no particular order.
    pub(crate) fn find(&self, text: &[u8]) -> Vec<SecretMatch> {
        let mut found = self.find_known(text);
        let similar = patterns::find(text, &self.patterns).into_iter();
        let similar = similar.filter(|range| text.get(range.clone()) != Some(REDACTED.as_bytes()));
        found.extend(similar.map(|range| SecretMatch {
            range,
            known_index: None,
        }));
        found
    }

    /// The known secrets in `text`; none of the ranges contains another.
    fn find_known(&self, text: &[u8]) -> Vec<SecretMatch> {
        let mut found: Vec<SecretMatch> = Vec::new();
        let Some(prefixes) = &self.prefixes else {
            return found;
        };
        for hit in prefixes.find_overlapping_iter(text) {
            let rest = text.get(hit.start()..).unwrap_or_default();
            let candidates = self.secrets_by_prefix.get(hit.pattern().as_usize());
            let matching_length = |secret: usize| {
                let known = self.secrets.get(secret).map_or("", Secret::expose);
                let pairs = rest.iter().zip(known.as_bytes());
                pairs.take_while(|(a, b)| a == b).count()
            };
            let longest = candidates
                .into_iter()
                .flatten()
                .map(|secret| (matching_length(*secret), *secret))
                .max_by_key(|(length, secret)| (*length, usize::MAX - secret));
            if let Some((length, secret)) = longest {
                let range = hit.start()..hit.start() + length;
                if length < MIN_EMBEDDED_LENGTH && !is_whole_word(text, &range) {
                    continue;
                }
                // Matches are reported in the order of their ends.
                while found.last().is_some_and(|last| {
                    last.range.start >= range.start && last.range.end <= range.end
                }) {
                    found.pop();
                }
                if found.last().is_none_or(|last| last.range.end < range.end) {
                    found.push(SecretMatch {
                        range,
                        known_index: Some(secret),
                    });
                }
            }
        }
        found
    }

    /// `text` with every secret replaced by `[redacted]`; borrowed if it contains none.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut layers = Layers::of(text.as_bytes().to_vec());
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for layer in 0..=layers.top() {
            let found = self.find(layers.bytes(layer));
            ranges.extend(found.into_iter().map(|one| layers.down(layer, one.range)));
        }
        let mut searched_layers = vec![layers.json(), layers.top()];
        searched_layers.dedup();
        for layer in searched_layers {
            EncodedRuns::each(&mut layers, layer, |layers, encoded| {
                for one in self.find(encoded.bytes()) {
                    let source = encoded.source_range(one.range);
                    ranges.extend(source.map(|range| layers.down(layer, range)));
                }
            });
        }
        if ranges.is_empty() {
            return Cow::Borrowed(text);
        }
        ranges.sort_by_key(|range| range.start);
        let mut clean: Vec<u8> = Vec::new();
        let mut done = 0;
        for range in ranges {
            // Adjacent secrets get one replacement.
            if range.start > done || clean.is_empty() {
                clean.extend_from_slice(text.as_bytes().get(done..range.start).unwrap_or_default());
                clean.extend_from_slice(REDACTED.as_bytes());
            }
            done = done.max(range.end);
        }
        clean.extend_from_slice(text.as_bytes().get(done..).unwrap_or_default());
        // A known secret that is cut off may end inside a character.
        Cow::Owned(String::from_utf8_lossy(&clean).into_owned())
    }
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
