//! A request as it goes to the upstream.

use std::ops::Range;

use crate::notes::Notes;

/// The upstream's request body, and where each item of the turn went.
#[derive(Debug)]
pub struct Encoded {
    /// The JSON body.
    pub body: Vec<u8>,
    /// Where the items stand in the body, in the order of the body.
    pub spans: Vec<ItemSpan>,
    /// Where that stands which comes before the items.
    pub offsets: BodyOffsets,
    /// Bytes that are there only because a message bears the mark of a cache: the
    /// next request has them elsewhere, and the provider does not count them.
    pub cache_marks: Vec<Range<usize>>,
    /// What was changed or left out.
    pub notes: Notes,
    /// About how many tokens the input has, by its bytes; images and files count
    /// apart.
    pub estimated_tokens: u64,
}

/// The parts of the body before the items. What lies in none of them are
/// parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BodyOffsets {
    /// The list of tools; empty where there is none.
    pub tools: Range<usize>,
    /// Where the messages begin.
    pub messages: usize,
    /// Where the instructions end, which come first; where there are none,
    /// [`Self::messages`].
    pub instructions: usize,
}

/// The bytes that one item became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemSpan {
    /// The item's index in the turn.
    pub item: usize,
    /// The bytes of the body.
    pub bytes: Range<usize>,
}
