//! Ids that clients choose, made short enough to be remembered.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

/// The most bytes of an id that is remembered as it is.
const MAX_BYTES: usize = 256;
/// How much of the beginning of a longer one stays, so that a person recognizes it.
const PREFIX_BYTES: usize = 64;

/// An id that a client chose, as it is remembered, logged and stored: a long one is replaced by its
/// beginning and a hash of all of it. The same id always becomes the same one.
pub(crate) fn bounded_id(id: Cow<'_, str>) -> Cow<'_, str> {
    if id.len() <= MAX_BYTES {
        return id;
    }
    let hash = Sha256::digest(id.as_bytes());
    let hash = hash.first_chunk().copied().unwrap_or_default();
    let prefix = id
        .get(..id.floor_char_boundary(PREFIX_BYTES))
        .unwrap_or_default();
    format!("{prefix}-{:032x}", u128::from_be_bytes(hash)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_id_stays_and_a_long_one_is_hashed() {
        let longest = "é".repeat(MAX_BYTES / 2);
        assert_eq!(bounded_id(longest.as_str().into()), longest);
        let (one, other) = (format!("{longest}1"), format!("{longest}2"));
        let bounded = |id: &str| bounded_id(id.into()).into_owned();
        assert_eq!(bounded(&one), bounded(&one));
        assert_ne!(bounded(&one), bounded(&other));
        assert!(bounded(&one).starts_with("éé"));
        assert_eq!(bounded(&one).len(), PREFIX_BYTES + 33);
        assert_eq!(bounded(&bounded(&one)), bounded(&one));
    }
}
