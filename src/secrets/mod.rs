//! Keys and tokens: a type that cannot be printed, and the search for secrets in
//! what is about to be printed.

pub(crate) mod encoded;
pub(crate) mod layers;
mod patterns;
mod redactor;

use std::fmt;
use std::sync::Arc;

use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

pub use redactor::Redactor;
pub(crate) use redactor::SecretMatch;

/// A key or token. It has no `Display` and no `Serialize`, its `Debug` is
/// constant, and its memory is wiped with the last clone.
#[derive(Clone)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// The text without the blanks around it; none if nothing is left.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(Arc::new(Zeroizing::new(text.to_owned()))))
    }

    /// The text, for the one place that sends or hashes it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether `presented` is this secret. The time depends on the length of
    /// what is presented alone.
    pub fn matches(&self, presented: &[u8]) -> bool {
        let secret = self.0.as_bytes();
        let mut same = secret.len().ct_eq(&presented.len());
        for (theirs, ours) in presented.iter().zip(secret.iter().cycle()) {
            same &= theirs.ct_eq(ours);
        }
        bool::from(same & Choice::from(1))
    }
}

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
    fn nothing_is_no_secret() {
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
