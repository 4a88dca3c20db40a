//! The token of the server and its comparison in constant time.

use thiserror::Error;

use super::Secret;

/// Length of the longest token in bytes.
const MAX_LENGTH: usize = 256;

/// A token that clients must present, checked. It cannot be printed.
#[derive(Clone, Debug)]
pub struct Token(Secret);

/// Why a text cannot be used as a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TokenError {
    /// It is empty: everyone who sends `Bearer` would be let in.
    #[error("the token is empty")]
    Empty,
    /// It is too long for a header.
    #[error("the token is longer than {MAX_LENGTH} bytes")]
    TooLong,
    /// It has spaces, control characters or non-ASCII characters, which not every client
    /// can send in a header.
    #[error("the token holds a character that a header cannot carry")]
    Unsendable,
}

impl Token {
    /// A token of 1 to 256 visible ASCII characters.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        if text.len() > MAX_LENGTH {
            return Err(TokenError::TooLong);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Unsendable);
        }
        Secret::new(text).map(Self).ok_or(TokenError::Empty)
    }

    /// Whether the presented bytes equal this token, compared in a time that tells nothing about
    /// the token.
    pub fn matches(&self, presented: &[u8]) -> bool {
        self.0.matches(presented)
    }
}

#[cfg(test)]
mod tests {
    use super::{Token, TokenError};

    // All lengths take the same path through `matches`.
    #[test]
    fn only_the_exact_token_matches() {
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
        assert_eq!(
            format!("{:?}", Token::new("canary").unwrap()),
            "Token([secret])"
        );
    }
}
