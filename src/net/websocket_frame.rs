//! The frames of a WebSocket (RFC 6455) as a server writes them: whole and unmasked.

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// A message of text.
    Text,
    /// The end of the connection.
    Close,
    /// Asks for a pong.
    Ping,
    /// Answers a ping.
    Pong,
}

/// The longest header of a frame that is not masked, in bytes.
pub(crate) const MAX_FRAME_HEADER: usize = 10;
/// The bit of the first byte that says that the message ends with the frame.
const FIN: u8 = 0x80;

impl FrameKind {
    fn opcode(self) -> u8 {
        match self {
            Self::Text => 0x1,
            Self::Close => 0x8,
            Self::Ping => 0x9,
            Self::Pong => 0xA,
        }
    }

    /// Appends the header of a frame. The payload of `length` bytes follows it.
    pub(crate) fn push_header(self, out: &mut Vec<u8>, length: usize) {
        out.push(FIN | self.opcode());
        if let Ok(length) = u8::try_from(length)
            && length < 126
        {
            out.push(length);
        } else if let Ok(length) = u16::try_from(length) {
            out.push(126);
            out.extend_from_slice(&length.to_be_bytes());
        } else {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }

    /// A frame with this payload.
    pub(crate) fn with(self, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::with_capacity(MAX_FRAME_HEADER + payload.len());
        self.push_header(&mut frame, payload.len());
        frame.extend_from_slice(payload);
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_has_the_shortest_form() {
        let header = |length| {
            let mut header = Vec::new();
            FrameKind::Text.push_header(&mut header, length);
            header
        };
        assert_eq!(header(0), [0x81, 0]);
        assert_eq!(header(125), [0x81, 125]);
        assert_eq!(header(126), [0x81, 126, 0, 126]);
        assert_eq!(header(65_535), [0x81, 126, 255, 255]);
        assert_eq!(header(65_536), [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(FrameKind::Ping.with(b"x"), [0x89, 1, b'x']);
    }
}
