//! Finds secrets in text that is about to be logged or sent.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use memchr::memmem;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::Secret;

/// What takes the place of a secret.
const MARK: &str = "[redacted]";

/// Shorter ones are placeholders such as `EMPTY`, and would tear up every text.
const SHORTEST: usize = 6;

/// So much of a long secret counts as the secret: texts are cut, keys echoed in part.
const TELLING: usize = 16;

/// Replaces known secrets: as they are, percent-encoded, and in base64 at any
/// place inside an encoded text, whole or cut off at the end.
#[derive(Clone, Default)]
pub struct Redactor {
    forms: Vec<Vec<u8>>,
}

impl Redactor {
    /// A redactor for `secrets`; those under six bytes are left alone.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut forms = Vec::new();
        for secret in secrets {
            let text = secret.expose();
            if text.len() < SHORTEST {
                continue;
            }
            forms.push(text.as_bytes().to_vec());
            forms.push(
                utf8_percent_encode(text, NON_ALPHANUMERIC)
                    .to_string()
                    .into_bytes(),
            );
            for lead in 0..3 {
                forms.push(inner_base64(&STANDARD_NO_PAD, text, lead));
                forms.push(inner_base64(&URL_SAFE_NO_PAD, text, lead));
            }
        }
        forms.retain(|form| form.len() >= SHORTEST);
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        Self { forms }
    }

    /// `text` without secrets; borrowed when there is none.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        for form in &self.forms {
            if let Some(next) = without(&clean, form) {
                clean = Cow::Owned(next);
            }
        }
        clean
    }
}

/// The base64 characters that `text` alone decides when `lead` bytes stand
/// before it in the encoded input.
fn inner_base64(engine: &impl Engine, text: &str, lead: usize) -> Vec<u8> {
    let mut input = vec![0; lead];
    input.extend_from_slice(text.as_bytes());
    let encoded = engine.encode(&input).into_bytes();
    let first = (lead * 8).div_ceil(6);
    let end = input.len() * 8 / 6;
    encoded.get(first..end).unwrap_or_default().to_vec()
}

/// `text` with every occurrence of `form` or of its telling beginning replaced.
fn without(text: &str, form: &[u8]) -> Option<String> {
    let telling = if form.len() >= TELLING + 8 {
        TELLING
    } else {
        form.len()
    };
    let (bytes, start) = (text.as_bytes(), form.get(..telling)?);
    let mut clean: Vec<u8> = Vec::new();
    let mut done = 0;
    for at in memmem::find_iter(bytes, start) {
        if at < done {
            continue;
        }
        let rest = bytes.get(at..)?;
        let same = rest.iter().zip(form).take_while(|(a, b)| a == b).count();
        clean.extend_from_slice(bytes.get(done..at)?);
        clean.extend_from_slice(MARK.as_bytes());
        done = at + same;
    }
    if done == 0 {
        return None;
    }
    clean.extend_from_slice(bytes.get(done..)?);
    Some(String::from_utf8(clean).unwrap_or_else(|_| MARK.to_owned()))
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};

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
}
