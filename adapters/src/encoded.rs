//! A request as it goes to the upstream.

use std::ops::Range;

use crate::notes::Notes;

/// The upstream's request body, and where each item of the turn went.
#[derive(Debug)]
pub struct Encoded {
    /// The JSON body.
    pub body: Vec<u8>,
    /// Where the items stand in the body, in the order of the body.
    pub spans: Vec<Span>,
    /// What was changed or left out.
    pub notes: Notes,
    /// About how many tokens the input has, by its bytes; images and files count
    /// apart.
    pub estimated_tokens: u64,
}

/// The bytes that one item became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The item's index in the turn.
    pub item: usize,
    /// The bytes of the body.
    pub bytes: Range<usize>,
}
