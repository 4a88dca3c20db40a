//! Finds secrets in text that is about to be logged or sent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

use super::Secret;
use super::encoded::Encoded;
use super::layers::Layers;

/// What takes the place of a secret.
const MARK: &str = "[redacted]";

/// Shorter ones are placeholders such as `EMPTY`, and would tear up every text.
const SHORTEST: usize = 6;

/// So much of a long secret counts as the secret: texts are cut, keys echoed in part.
const TELLING: usize = 16;

/// Replaces known secrets: as they are, with the escapes of JSON inside JSON,
/// percent-encoded as far as anybody likes, and in base64 and hexadecimal digits
/// at any place inside an encoded text, whole or cut off at the end.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<Secret>,
    beginnings: Option<AhoCorasick>,
    /// The secrets that have each beginning.
    owners: Vec<Vec<usize>>,
}

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Where.
    pub(crate) part: Range<usize>,
    /// Its place in [`Redactor::secrets`].
    pub(crate) secret: usize,
}

impl Redactor {
    /// A redactor for `secrets`; those under six bytes are left alone.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let secrets: Vec<Secret> = secrets
            .into_iter()
            .filter(|secret| secret.expose().len() >= SHORTEST)
            .cloned()
            .collect();
        let mut owners: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (place, secret) in secrets.iter().enumerate() {
            let text = secret.expose().as_bytes();
            let beginning = text.get(..TELLING).unwrap_or(text);
            owners.entry(beginning).or_default().push(place);
        }
        let beginnings = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(owners.keys())
            .ok()
            .filter(|_| !owners.is_empty());
        let owners = owners.into_values().collect();
        Self {
            secrets,
            beginnings,
            owners,
        }
    }

    /// The secrets.
    pub(crate) fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// Secrets that stand in `text` as they are, in their order, none inside
    /// another.
    pub(crate) fn find(&self, text: &[u8]) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        let Some(beginnings) = &self.beginnings else {
            return found;
        };
        for hit in beginnings.find_overlapping_iter(text) {
            let rest = text.get(hit.start()..).unwrap_or_default();
            let owners = self.owners.get(hit.pattern().as_usize());
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
                // Hits come in the order of their ends.
                while found
                    .last()
                    .is_some_and(|last| last.part.start >= part.start && last.part.end <= part.end)
                {
                    found.pop();
                }
                if found.last().is_none_or(|last| last.part.end < part.end) {
                    found.push(Found { part, secret });
                }
            }
        }
        found.sort_by_key(|one| one.part.start);
        found
    }

    /// `text` without secrets; borrowed when there is none.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.beginnings.is_none() {
            return Cow::Borrowed(text);
        }
        let mut layers = Layers::of(text.as_bytes().to_vec());
        let mut parts: Vec<Range<usize>> = Vec::new();
        for layer in 0..=layers.top() {
            let found = self.find(layers.bytes(layer));
            parts.extend(found.into_iter().map(|one| layers.down(layer, one.part)));
        }
        let mut encoded_in = vec![layers.json(), layers.top()];
        encoded_in.dedup();
        for layer in encoded_in {
            Encoded::each(&mut layers, layer, |layers, encoded| {
                for one in self.find(encoded.bytes()) {
                    let place = encoded.place_of(one.part);
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
            if part.start >= done {
                clean.extend_from_slice(text.as_bytes().get(done..part.start).unwrap_or_default());
                clean.extend_from_slice(MARK.as_bytes());
            }
            done = done.max(part.end);
        }
        clean.extend_from_slice(text.as_bytes().get(done..).unwrap_or_default());
        // A beginning may end inside a character.
        Cow::Owned(String::from_utf8_lossy(&clean).into_owned())
    }
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
                assert!(clean.contains(MARK), "{user} {clean}");
                let left: String = clean.split(MARK).collect();
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
        let dummy = Redactor::new([&Secret::new("EMPTY").unwrap()]);
        assert_eq!(dummy.redact("an EMPTY answer"), "an EMPTY answer");
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
