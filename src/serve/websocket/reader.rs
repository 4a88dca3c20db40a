//! Reads the messages of a client.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::{Instant, timeout_at};

use super::close::{self, CloseCode, SocketEnd};
use crate::net::blocking::block_in_place_if_large;
use crate::net::memory::{self, MemoryKind, MemoryShare};
use crate::serve::BodyLimits;
use crate::serve::body::{WORKING_COPIES, deadline};

/// How much is read at once between two messages.
const READ_BUFFER: usize = 4 * 1024;
/// A message of more bytes gets all the room that it may need at once.
const RESERVED: usize = 64 * 1024;
/// The longest payload of a control frame.
const MAX_CONTROL: usize = 125;

/// A message of text.
#[derive(Debug)]
pub struct TextMessage {
    /// The text.
    pub text: String,
    /// The memory of the text, and of a working copy of it.
    pub memory: MemoryShare,
}

/// What a client sent.
#[derive(Debug)]
pub enum Incoming {
    /// A message.
    Text(TextMessage),
    /// Asks for a pong with this payload.
    Ping(Vec<u8>),
    /// Answers a ping, or comes unasked.
    Pong,
    /// Closes the connection, with this code if there is one.
    Close(Option<CloseCode>),
}

/// What was read. After an error nothing more can be read.
pub type ReadResult = Result<Incoming, SocketEnd>;

/// When a client has sent something last.
pub struct Activity(Mutex<Instant>);

impl Default for Activity {
    fn default() -> Self {
        Self(Mutex::new(Instant::now()))
    }
}

impl Activity {
    /// Counts the silence from now on.
    pub(super) fn begin_again(&self) {
        *self.0.lock() = Instant::now();
    }

    /// How long the client has been silent.
    pub(super) fn silent_for(&self) -> Duration {
        self.0.lock().elapsed()
    }
}

/// The reading half of a connection.
pub struct MessageReader<S> {
    stream: S,
    /// What was read and not yet used.
    buffered: Bytes,
    limits: BodyLimits,
    activity: Arc<Activity>,
    /// The message that is arriving.
    message: Option<ArrivingMessage>,
}

struct ArrivingMessage {
    bytes: Vec<u8>,
    memory: MemoryShare,
    began: Instant,
}

/// The header of a client's frame, whose payload is always masked.
struct ClientFrame {
    is_last: bool,
    opcode: u8,
    length: u64,
    mask: [u8; 4],
}

impl<S: AsyncRead + Unpin> MessageReader<S> {
    /// Reads what a client sends after `begun`, which was read with its handshake.
    pub fn new(stream: S, begun: Bytes, limits: BodyLimits, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            buffered: begun,
            limits,
            activity,
            message: None,
        }
    }

    /// Reads up to the end of a message or of a control frame, which may come between the frames of
    /// a message.
    pub async fn next(&mut self) -> ReadResult {
        loop {
            let frame = self.frame().await?;
            match (frame.opcode, &self.message) {
                (0x0, Some(_)) | (0x1, None) => {
                    if let Some(text) = self.part(&frame).await? {
                        return Ok(Incoming::Text(text));
                    }
                }
                (0x2, None) => return Err(SocketEnd::Binary),
                (0x8..=0xA, _) => {
                    let payload = self.control(&frame).await?;
                    return match frame.opcode {
                        0x8 => close::read(&payload).map(Incoming::Close),
                        0x9 => Ok(Incoming::Ping(payload)),
                        _ => Ok(Incoming::Pong),
                    };
                }
                _ => return Err(SocketEnd::Protocol),
            }
        }
    }

    /// The header of the next frame.
    async fn frame(&mut self) -> Result<ClientFrame, SocketEnd> {
        let [first, second] = self.header().await?;
        let is_masked = second & 0x80 != 0;
        // No extension was agreed on that gives the reserved bits a meaning.
        if first & 0x70 != 0 || !is_masked {
            return Err(SocketEnd::Protocol);
        }
        let length = match second & 0x7F {
            126 => u64::from(u16::from_be_bytes(self.header().await?)),
            127 => u64::from_be_bytes(self.header().await?),
            length => u64::from(length),
        };
        Ok(ClientFrame {
            is_last: first & 0x80 != 0,
            opcode: first & 0x0F,
            length,
            mask: self.header().await?,
        })
    }

    /// The next bytes of a header.
    async fn header<const N: usize>(&mut self) -> Result<[u8; N], SocketEnd> {
        let mut header = [0; N];
        let mut filled = 0;
        while filled < N {
            if self.buffered.is_empty() {
                self.fill().await?;
            }
            while let Some(place) = header.get_mut(filled)
                && self.buffered.has_remaining()
            {
                *place = self.buffered.get_u8();
                filled += 1;
            }
        }
        Ok(header)
    }

    /// Reads some bytes into the buffer.
    async fn fill(&mut self) -> Result<(), SocketEnd> {
        let mut buffer = Vec::with_capacity(READ_BUFFER);
        let until = self.deadline();
        let read = self.stream.read_buf(&mut buffer);
        received(&self.activity, until, read).await?;
        self.buffered = buffer.into();
        Ok(())
    }

    /// The latest time for the next bytes of a message; `None` between messages.
    fn deadline(&self) -> Option<Instant> {
        let message = self.message.as_ref()?;
        let received = message.bytes.len();
        Some(deadline(&self.limits, message.began, received))
    }

    /// Reads the payload of a control frame.
    async fn control(&mut self, frame: &ClientFrame) -> Result<Vec<u8>, SocketEnd> {
        let length = usize::try_from(frame.length).unwrap_or(usize::MAX);
        if !frame.is_last || length > MAX_CONTROL {
            return Err(SocketEnd::Protocol);
        }
        let mut payload = Vec::with_capacity(length);
        while payload.len() < length {
            let [byte] = self.header().await?;
            payload.push(byte);
        }
        unmask(&mut payload, frame.mask, 0);
        Ok(payload)
    }

    /// Reads the payload of a frame of text; returns the message if it is complete.
    async fn part(&mut self, frame: &ClientFrame) -> Result<Option<TextMessage>, SocketEnd> {
        let (limits, buffered) = (&self.limits, &mut self.buffered);
        let message = self.message.get_or_insert_with(|| ArrivingMessage {
            bytes: Vec::new(),
            memory: limits.memory.share(MemoryKind::Requests),
            began: Instant::now(),
        });
        let bytes = &mut message.bytes;
        let room = limits.max.saturating_sub(bytes.len());
        let length = usize::try_from(frame.length).ok();
        let length = length.filter(|length| *length <= room);
        let length = length.ok_or(SocketEnd::TooLarge)?;
        let (start, end) = (bytes.len(), bytes.len() + length);
        let with_copies = (1 + WORKING_COPIES) * end + memory::STEP;
        let counted = message.memory.request(with_copies).await;
        counted.map_err(|_| SocketEnd::MemoryFull)?;
        if end > RESERVED {
            // Memory that is reserved and not written costs only addresses, and a block that grows
            // is copied.
            bytes.reserve_exact(room);
        } else {
            bytes.reserve(length);
        }
        while bytes.len() < end {
            let before = bytes.len();
            let left = end - before;
            if buffered.is_empty() {
                let until = deadline(limits, message.began, before);
                let mut piece = (&mut self.stream).take(left as u64);
                received(&self.activity, Some(until), piece.read_buf(bytes)).await?;
            } else {
                let piece = buffered.split_to(left.min(buffered.len()));
                bytes.extend_from_slice(&piece);
            }
            if let Some(new) = bytes.get_mut(before..) {
                unmask(new, frame.mask, before - start);
            }
        }
        if !frame.is_last {
            return Ok(None);
        }
        let Some(ArrivingMessage { bytes, memory, .. }) = self.message.take() else {
            return Ok(None);
        };
        let text = block_in_place_if_large(bytes.len(), || String::from_utf8(bytes));
        let mut text = text.map_err(|_| SocketEnd::NotText)?;
        text.shrink_to_fit();
        Ok(Some(TextMessage { text, memory }))
    }
}

/// Waits for bytes of the client.
async fn received(
    activity: &Activity,
    until: Option<Instant>,
    read: impl Future<Output = std::io::Result<usize>>,
) -> Result<(), SocketEnd> {
    let read = match until {
        Some(until) => timeout_at(until, read)
            .await
            .map_err(|_| SocketEnd::TooSlow)?,
        None => read.await,
    };
    match read {
        Ok(1..) => {
            activity.begin_again();
            Ok(())
        }
        Ok(0) | Err(_) => Err(SocketEnd::Gone),
    }
}

/// Removes the mask of a payload. `at` is the place of its first byte within the frame.
fn unmask(payload: &mut [u8], mut mask: [u8; 4], at: usize) {
    mask.rotate_left(at % 4);
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = payload.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_removed_wherever_a_payload_is_cut() {
        let mask = [1, 2, 3, 250];
        let plain: Vec<u8> = (0..100).collect();
        let keys = mask.iter().cycle();
        let masked: Vec<u8> = plain
            .iter()
            .zip(keys)
            .map(|(byte, key)| byte ^ key)
            .collect();
        for cut in 0..=plain.len() {
            let mut payload = masked.clone();
            let (first, second) = payload.split_at_mut(cut);
            unmask(first, mask, 0);
            unmask(second, mask, cut);
            assert_eq!(payload, plain, "cut at {cut}");
        }
    }
}
