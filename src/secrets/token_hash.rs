//! The hash of a token, with which a token is recognised that is written nowhere.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The SHA-256 of a token. Tokens are random, so a plain hash is enough: there is nothing to guess.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a token.
    pub fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut hash = [0; 32];
        if text.len() != 2 * hash.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (at, byte) in hash.iter_mut().enumerate() {
            let digits = text.get(2 * at..2 * at + 2)?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Self(hash))
    }

    /// Whether both are of the same token. The time says nothing about either.
    pub fn matches(&self, other: &Self) -> bool {
        bool::from(self.0.ct_eq(&other.0))
    }
}

/// The hash as hexadecimal digits.
impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hash]")
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.matches(other)
    }
}

impl Eq for TokenHash {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_64_hexadecimal_digits() {
        let hash = TokenHash::of(b"abc");
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), hex);
        assert_eq!(TokenHash::from_hex(&hex.to_uppercase()), Some(hash));
        assert_ne!(TokenHash::of(b"abd"), hash);
        let long = format!("{hex}0");
        for bad in [
            "",
            "abc",
            hex.trim_start_matches('b'),
            &long,
            &hex.replace('b', "é"),
            &hex.replace("ba", "+a"),
        ] {
            assert_eq!(TokenHash::from_hex(bad), None, "{bad}");
        }
    }
}
