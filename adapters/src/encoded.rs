//! An upstream request in its final bytes.

use std::ops::Range;

use crate::fault::{Fault, Kind};
use crate::notes::Notes;

/// The most bytes of an encoded request, whatever the wire. Escaping at most doubles a text, so
/// that no request of up to 64 MiB, the default limit of bodies, comes near it; only what is
/// written many times over does.
pub(crate) const MAX_BODY_BYTES: usize = 256 << 20;

/// Fails if a request of this size is too large. `part` names the part that was written last. An
/// encoder asks after each part that can be much larger than what it is made from.
pub(crate) fn check_size(bytes: usize, part: &'static str) -> Result<(), Fault> {
    if bytes <= MAX_BODY_BYTES {
        return Ok(());
    }
    let limit = MAX_BODY_BYTES >> 20;
    Err(Fault {
        param: Some(part.into()),
        ..Fault::new(
            Kind::InvalidRequest,
            format!("With '{part}' the request to the provider is larger than {limit} MiB."),
        )
    })
}

/// An encoded upstream request: the body, and where its parts are. Made by a wire's
/// encoder; the offsets serve the prefix tracker, the notes go to the client.
#[derive(Debug)]
pub struct Encoded {
    /// The JSON body.
    pub body: Vec<u8>,
    /// The bytes of each item, in the order of the body.
    pub spans: Vec<ItemSpan>,
    /// The offsets of tools and instructions.
    pub offsets: BodyOffsets,
    /// Bytes that exist only because a message carries a cache breakpoint. The next
    /// request has them elsewhere, and the provider does not count them.
    pub cache_marks: Vec<Range<usize>>,
    /// Notes about what was changed or left out.
    pub notes: Notes,
    /// Estimated input tokens: text by its bytes, images and files separately.
    pub estimated_tokens: u64,
    /// Whether it holds images, files or recordings, whose tokens are a guess.
    pub has_media: bool,
}

/// The offsets of the parts that precede the items. All other bytes before the
/// items are parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BodyOffsets {
    /// The list of tools; an empty range if there is none.
    pub tools: Range<usize>,
    /// The part of it that has the tools of the proxy that read artifacts, with the commas before
    /// them; all of it if there are no others. Empty if they are not offered.
    pub artifact_tools: Range<usize>,
    /// Where the list of messages begins.
    pub messages: usize,
    /// Where the instructions end, which come first in the messages; equal to
    /// [`Self::messages`] if there are none.
    pub instructions: usize,
}

/// The bytes that one item was encoded to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemSpan {
    /// The item's index in the turn.
    pub item: usize,
    /// The range in the body.
    pub bytes: Range<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_too_large_is_the_client_s_fault() {
        assert!(check_size(256 << 20, "input").is_ok());
        let fault = check_size((256 << 20) + 1, "input").unwrap_err();
        assert_eq!(fault.kind, Kind::InvalidRequest);
        assert_eq!(fault.param.as_deref(), Some("input"));
        assert!(fault.message.contains("256 MiB"), "{}", fault.message);
    }
}
