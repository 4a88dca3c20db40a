//! Keys and tokens: [`Secret`], a type that cannot be printed, and [`Redactor`], which finds
//! secrets in text before it is logged, recorded or sent. [`Token`] is a token that clients
//! present. Of some tokens only a [`TokenHash`] is known.
//!
//! `redactor` searches for known secrets and, with `patterns`, for text that looks like one.
//! `decoded` undoes JSON escapes, character references of HTML, percent-encoding, base64 and
//! hexadecimal, so that encoded secrets are found, too.

mod decoded;
mod patterns;
mod redactor;
mod token;
mod token_hash;

use std::fmt;
use std::sync::Arc;

use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

pub(crate) use patterns::constant_regex;
pub use redactor::Redactor;
pub(crate) use redactor::{ContentHash, SecretMatch, settle};
pub use token::{Token, TokenError};
pub use token_hash::TokenHash;

/// An API key or token. It has no `Display` and no `Serialize`, its `Debug` output is
/// constant, and its memory is zeroed when the last clone is dropped.
#[derive(Clone)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// The text without surrounding white space; `None` if nothing is left.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(Arc::new(Zeroizing::new(text.to_owned()))))
    }

    /// The plain text, for code that sends, compares or hashes it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether `presented` equals this secret. The running time depends only on the length
    /// of `presented`.
    pub fn matches(&self, presented: &[u8]) -> bool {
        let secret = self.0.as_bytes();
        let mut same = secret.len().ct_eq(&presented.len());
        for (theirs, ours) in presented.iter().zip(secret.iter().cycle()) {
            same &= theirs.ct_eq(ours);
        }
        bool::from(same & Choice::from(1))
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.matches(other.expose().as_bytes())
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::new(" sk-canary\n").unwrap();
        assert_eq!(
            format!("{secret:?} {:?}", Some(&secret)),
            "[secret] Some([secret])"
        );
        assert_eq!(secret.expose(), "sk-canary");
    }

    #[test]
    fn an_empty_text_is_no_secret() {
        assert!(Secret::new(" \n").is_none());
    }

    #[test]
    fn only_the_whole_secret_matches() {
        let secret = Secret::new("abcabc").unwrap();
        assert!(secret.matches(b"abcabc"));
        for other in ["", "abc", "abcabcabcabc", "abcabd", "Abcabc"] {
            assert!(!secret.matches(other.as_bytes()), "{other}");
        }
    }
}
