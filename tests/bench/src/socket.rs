//! A WebSocket (RFC 6455) that sends requests for responses, and takes the time of every read
//! before it looks for frames.

use std::net::SocketAddr;

use anyhow::{bail, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{clock::now_ns, scan::Scanner};

const BUFFER: usize = 64 * 1024;
/// The first byte of the frame of a whole message of text, and of a ping.
const TEXT: u8 = 0x81;
const PING: u8 = 0x89;
/// The first byte of a pong and its length, which is 0, with the bit of a masked frame.
const PONG: [u8; 2] = [0x8A, 0x80];
/// Every client masks what it sends. This mask changes nothing.
const MASK: [u8; 4] = [0; 4];

/// A connection after its handshake.
pub(crate) struct Socket {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// The beginning of a frame that has not arrived as a whole.
    partial: Vec<u8>,
}

impl Socket {
    pub(crate) async fn open(addr: SocketAddr) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        let request = format!(
            "GET /v1/responses HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer bench\r\n\
             connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        // The server sends nothing before the first request, so this is the answer alone.
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let read = stream.read_buf(&mut head).await?;
            ensure!(read > 0, "closed within the handshake");
        }
        ensure!(
            head.starts_with(b"HTTP/1.1 101 "),
            "the handshake was answered with {}",
            String::from_utf8_lossy(&head)
        );
        Ok(Self {
            stream,
            buffer: vec![0; BUFFER],
            partial: Vec::new(),
        })
    }

    /// Sends whole frames.
    pub(crate) async fn send(&mut self, frames: &[u8]) -> anyhow::Result<()> {
        Ok(self.stream.write_all(frames).await?)
    }

    /// Reads once, and passes the messages that are complete to `scanner`. Answers pings. Returns
    /// the time of the read in ns.
    pub(crate) async fn read(&mut self, scanner: &mut Scanner) -> anyhow::Result<u64> {
        let read = self.stream.read(&mut self.buffer).await?;
        let at = now_ns();
        ensure!(read > 0, "closed before the response ended");
        let piece = self.buffer.get(..read).unwrap_or_default();
        let mut pings = 0;
        let mut take = |bytes: &[u8]| -> anyhow::Result<usize> {
            let mut rest = bytes;
            while let Some((first, payload, after)) = split_frame(rest)? {
                match first {
                    TEXT => scanner.message(payload, at),
                    PING => pings += 1,
                    first => bail!("a frame begins with {first:#x}"),
                }
                rest = after;
            }
            Ok(bytes.len() - rest.len())
        };
        if self.partial.is_empty() {
            let used = take(piece)?;
            self.partial
                .extend_from_slice(piece.get(used..).unwrap_or_default());
        } else {
            self.partial.extend_from_slice(piece);
            let used = take(&self.partial)?;
            self.partial.drain(..used);
        }
        for _ in 0..pings {
            self.send(&[&PONG[..], &MASK].concat()).await?;
        }
        Ok(at)
    }

    /// Frees the read buffer, as that of an idle connection.
    pub(crate) fn free_buffer(&mut self) {
        self.buffer = Vec::new();
    }
}

/// A message of text in one frame.
pub(crate) fn masked(text: &[u8]) -> Vec<u8> {
    let mut frame = vec![TEXT];
    if let Ok(length) = u8::try_from(text.len())
        && length < 126
    {
        frame.push(0x80 | length);
    } else if let Ok(length) = u16::try_from(text.len()) {
        frame.push(0xFE);
        frame.extend(length.to_be_bytes());
    } else {
        frame.push(0xFF);
        frame.extend((text.len() as u64).to_be_bytes());
    }
    frame.extend(MASK);
    frame.extend_from_slice(text);
    frame
}

/// A frame: its first byte, its payload, and the bytes after it.
type SplitFrame<'b> = (u8, &'b [u8], &'b [u8]);

/// Splits off the frame at the beginning; `None` if it is not complete.
fn split_frame(bytes: &[u8]) -> anyhow::Result<Option<SplitFrame<'_>>> {
    let Some(([first, second], rest)) = bytes.split_first_chunk() else {
        return Ok(None);
    };
    let (length, rest) = match *second {
        126 => {
            let Some((length, rest)) = rest.split_first_chunk() else {
                return Ok(None);
            };
            (u64::from(u16::from_be_bytes(*length)), rest)
        }
        127 => {
            let Some((length, rest)) = rest.split_first_chunk() else {
                return Ok(None);
            };
            (u64::from_be_bytes(*length), rest)
        }
        128.. => bail!("a server masks nothing"),
        length => (u64::from(length), rest),
    };
    let split = rest.split_at_checked(usize::try_from(length)?);
    Ok(split.map(|(payload, after)| (*first, payload, after)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_length_are_split_where_they_end() {
        for length in [0, 1, 125, 126, 65_535, 65_536] {
            // As a server sends it: without the bit of a masked frame, and without a mask.
            let text = vec![b'a'; length];
            let mut frame = masked(&text);
            let header = frame.len() - length;
            frame.drain(header - MASK.len()..header);
            frame[1] &= 0x7F;
            for end in 0..frame.len() {
                assert!(
                    split_frame(&frame[..end]).unwrap().is_none(),
                    "{length}, {end}"
                );
            }
            frame.push(b'z');
            let expected = (TEXT, &text[..], &b"z"[..]);
            assert_eq!(split_frame(&frame).unwrap(), Some(expected));
        }
        assert!(split_frame(&masked(b"a")).is_err());
    }
}
