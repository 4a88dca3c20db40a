//! The client's token and its comparison.
use std::fmt;

use subtle::{Choice, ConstantTimeEq};
use thiserror::Error;

/// Longest token in bytes.
const LONGEST: usize = 256;

/// A token that clients must present. It cannot be printed.
///
/// It is kept padded to a fixed width, so that a comparison takes the same time
/// whatever the presented token's length or content: `subtle` compares slices of
/// different length in no time, which would tell the length.
#[derive(Clone)]
pub struct Token {
    padded: [u8; LONGEST],
    length: u64,
}

/// Why a text cannot be a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TokenError {
    /// An empty token would let everyone in who sends `Bearer`.
    #[error("the token is empty")]
    Empty,
    /// Longer than the comparison's fixed width.
    #[error("the token is longer than {LONGEST} bytes")]
    TooLong,
    /// Spaces, control characters and non-ASCII do not survive a header.
    #[error("the token holds a character that a header cannot carry")]
    Unsendable,
}

impl Token {
    /// A token of 1 to 256 visible ASCII characters.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        if text.is_empty() {
            return Err(TokenError::Empty);
        }
        if text.len() > LONGEST {
            return Err(TokenError::TooLong);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Unsendable);
        }
        Ok(Self {
            padded: pad(text.as_bytes()),
            length: text.len() as u64,
        })
    }

    /// Whether the presented bytes are this token, in constant time.
    pub fn matches(&self, presented: &[u8]) -> bool {
        let same_length: Choice = self.length.ct_eq(&(presented.len() as u64));
        let same_bytes: Choice = self.padded.ct_eq(&pad(presented));
        (same_length & same_bytes).into()
    }
}

/// The first bytes, filled up with zeros.
fn pad(bytes: &[u8]) -> [u8; LONGEST] {
    let mut padded = [0; LONGEST];
    for (to, from) in padded.iter_mut().zip(bytes) {
        *to = *from;
    }
    padded
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::{Token, TokenError};

    // S34: every length takes the one path through `matches`.
    #[test]
    fn only_the_very_token_matches() {
        let token = Token::new("correct-horse").unwrap();
        assert!(token.matches(b"correct-horse"));
        let longer = [b"correct-horse".as_slice(), &[0; 400]].concat();
        for wrong in [
            b"".as_slice(),
            b"correct-hors",
            b"correct-horsf",
            b"Xorrect-horse",
            &longer,
        ] {
            assert!(!token.matches(wrong), "{wrong:?}");
        }
        assert!(!token.matches(b"correct-horse\0"));
        let full = Token::new(&"t".repeat(256)).unwrap();
        assert!(full.matches("t".repeat(256).as_bytes()));
        assert!(!full.matches("t".repeat(257).as_bytes()));
    }

    #[test]
    fn unusable_tokens_are_refused() {
        assert_eq!(Token::new("").unwrap_err(), TokenError::Empty);
        assert_eq!(
            Token::new(&"t".repeat(257)).unwrap_err(),
            TokenError::TooLong
        );
        assert_eq!(Token::new("a b").unwrap_err(), TokenError::Unsendable);
        assert_eq!(Token::new("é").unwrap_err(), TokenError::Unsendable);
    }

    #[test]
    fn it_cannot_be_printed() {
        assert_eq!(format!("{:?}", Token::new("canary").unwrap()), "Token(..)");
    }
}
