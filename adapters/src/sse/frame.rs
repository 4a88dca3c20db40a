//! Events as they are written to clients.

use bytes::BufMut;

const EVENT: &[u8] = b"event: ";
const DATA: &[u8] = b"\ndata: ";

/// What follows the data of an event.
pub const FRAME_END: &[u8] = b"\n\n";

/// What follows the terminal event (Open Responses).
pub const DONE: &[u8] = b"data: [DONE]\n\n";

/// Begins the frame of an event of this type. Its document on one line and [`FRAME_END`] follow.
pub fn begin_frame(out: &mut impl BufMut, name: &[u8]) {
    out.put_slice(EVENT);
    out.put_slice(name);
    out.put_slice(DATA);
}

/// The length of the frame around an event of this type, without the document.
pub(crate) const fn frame_len(name: &str) -> usize {
    EVENT.len() + name.len() + DATA.len() + FRAME_END.len()
}
