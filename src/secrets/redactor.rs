//! Finds secrets in text that is about to be logged or sent.

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

/// What takes the place of a secret.
const REDACTED: &str = "[redacted]";

/// Shorter ones are found where they stand alone: they are in many a word.
const MIN_EMBEDDED_LENGTH: usize = 6;

/// So much of a long secret counts as the secret: texts are cut, keys echoed in part.
const PREFIX_LENGTH: usize = 16;

/// Replaces secrets, known ones and those that look like one: as they are, with
/// the escapes of JSON inside JSON, percent-encoded as far as anybody likes, and
/// in base64 and hexadecimal digits at any place inside an encoded text. A known
/// one may be cut off at the end.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<Secret>,
    /// What counts as a secret besides, as the user wants it.
    patterns: Arc<[Regex]>,
    prefixes: Option<AhoCorasick>,
    /// The secrets that have each beginning.
    secrets_by_prefix: Vec<Vec<usize>>,
}

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecretMatch {
    /// Where.
    pub(crate) range: Range<usize>,
    /// Its place in [`Redactor::secrets`], if it is known.
    pub(crate) known_index: Option<usize>,
}

impl Redactor {
    /// A redactor for `secrets` and for all that looks like one.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let secrets: Vec<Secret> = secrets.into_iter().cloned().collect();
        let mut owners: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (place, secret) in secrets.iter().enumerate() {
            let text = secret.expose().as_bytes();
            let beginning = text.get(..PREFIX_LENGTH).unwrap_or(text);
            owners.entry(beginning).or_default().push(place);
        }
        let prefixes = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(owners.keys())
            .ok()
            .filter(|_| !owners.is_empty());
        let secrets_by_prefix = owners.into_values().collect();
        Self {
            secrets,
            patterns: Arc::default(),
            prefixes,
            secrets_by_prefix,
        }
    }

    /// It finds what `patterns` match as well: their first group if they have
    /// one.
    #[must_use]
    pub fn with_patterns(mut self, patterns: &[Regex]) -> Self {
        self.patterns = patterns.into();
        self
    }

    /// The secrets.
    pub(crate) fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// Secrets that stand in `text` as they are, in no order.
    pub(crate) fn find(&self, text: &[u8]) -> Vec<SecretMatch> {
        let mut found = self.find_known(text);
        let shaped = patterns::find(text, &self.patterns).into_iter();
        let shaped = shaped.filter(|part| text.get(part.clone()) != Some(REDACTED.as_bytes()));
        found.extend(shaped.map(|part| SecretMatch {
            range: part,
            known_index: None,
        }));
        found
    }

    /// Known secrets, none inside another.
    fn find_known(&self, text: &[u8]) -> Vec<SecretMatch> {
        let mut found: Vec<SecretMatch> = Vec::new();
        let Some(beginnings) = &self.prefixes else {
            return found;
        };
        for hit in beginnings.find_overlapping_iter(text) {
            let rest = text.get(hit.start()..).unwrap_or_default();
            let owners = self.secrets_by_prefix.get(hit.pattern().as_usize());
            let same = |secret: usize| {
                let known = self.secrets.get(secret).map_or("", Secret::expose);
                let pairs = rest.iter().zip(known.as_bytes());
                pairs.take_while(|(a, b)| a == b).count()
            };
            let longest = owners
                .into_iter()
                .flatten()
                .map(|secret| (same(*secret), *secret))
                .max_by_key(|(length, secret)| (*length, usize::MAX - secret));
            if let Some((length, secret)) = longest {
                let part = hit.start()..hit.start() + length;
                if length < MIN_EMBEDDED_LENGTH && !stands_alone(text, &part) {
                    continue;
                }
                // Hits come in the order of their ends.
                while found.last().is_some_and(|last| {
                    last.range.start >= part.start && last.range.end <= part.end
                }) {
                    found.pop();
                }
                if found.last().is_none_or(|last| last.range.end < part.end) {
                    found.push(SecretMatch {
                        range: part,
                        known_index: Some(secret),
                    });
                }
            }
        }
        found
    }

    /// `text` without secrets; borrowed when there is none.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut layers = Layers::of(text.as_bytes().to_vec());
        let mut parts: Vec<Range<usize>> = Vec::new();
        for layer in 0..=layers.top() {
            let found = self.find(layers.bytes(layer));
            parts.extend(found.into_iter().map(|one| layers.down(layer, one.range)));
        }
        let mut encoded_in = vec![layers.json(), layers.top()];
        encoded_in.dedup();
        for layer in encoded_in {
            EncodedRuns::each(&mut layers, layer, |layers, encoded| {
                for one in self.find(encoded.bytes()) {
                    let place = encoded.place_of(one.range);
                    parts.extend(place.map(|part| layers.down(layer, part)));
                }
            });
        }
        if parts.is_empty() {
            return Cow::Borrowed(text);
        }
        parts.sort_by_key(|part| part.start);
        let mut clean: Vec<u8> = Vec::new();
        let mut done = 0;
        for part in parts {
            // Side by side they are one.
            if part.start > done || clean.is_empty() {
                clean.extend_from_slice(text.as_bytes().get(done..part.start).unwrap_or_default());
                clean.extend_from_slice(REDACTED.as_bytes());
            }
            done = done.max(part.end);
        }
        clean.extend_from_slice(text.as_bytes().get(done..).unwrap_or_default());
        // A beginning may end inside a character.
        Cow::Owned(String::from_utf8_lossy(&clean).into_owned())
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redactor]")
    }
}

fn stands_alone(text: &[u8], part: &Range<usize>) -> bool {
    let is_letter = |at: Option<usize>| {
        at.and_then(|at| text.get(at))
            .is_some_and(u8::is_ascii_alphanumeric)
    };
    !is_letter(part.start.checked_sub(1)) && !is_letter(Some(part.end))
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
    fn a_plain_key_goes() {
        assert_eq!(
            redact(&format!("Authorization: Bearer {KEY}, again {KEY}.")),
            "Authorization: Bearer [redacted], again [redacted]."
        );
    }

    #[test]
    fn an_encoded_key_goes_wherever_it_stands() {
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
    fn a_key_that_is_cut_off_goes() {
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
    fn what_looks_like_a_secret_goes() {
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
    fn a_key_goes_in_every_encoding() {
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
            // Percent signs for some, in either case, and twice.
            ("sk-canary%2f7f3e+9a1b2c4d", "[redacted]"),
            ("%73k-canary/7f3e%2B9a1b2c4d&b", "[redacted]&b"),
            ("sk-canary%252F7f3e%252B9a1b2c4d", "[redacted]"),
            // Hexadecimal digits.
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
