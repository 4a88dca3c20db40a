//! A raw HTTP/1.1 connection, which takes the time of every read before it parses the bytes.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{clock::now_ns, dechunk::Dechunker};

const BUFFER: usize = 64 * 1024;

/// A keep-alive connection that carries one exchange at a time.
pub(crate) struct Conn {
    socket: TcpStream,
    buffer: Vec<u8>,
}

/// A response being read.
pub(crate) struct RawResponse {
    /// The HTTP status.
    pub(crate) status: u16,
    framing: RawFraming,
    /// Body bytes that arrived together with the head, and the time of their arrival in ns.
    early: (Vec<u8>, u64),
}

enum RawFraming {
    Chunked(Dechunker),
    Length(u64),
    Close,
}

impl Conn {
    pub(crate) async fn open(addr: SocketAddr) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(addr).await?;
        socket.set_nodelay(true)?;
        Ok(Self {
            socket,
            buffer: vec![0; BUFFER],
        })
    }

    /// Sends a whole request and reads the head of its response.
    pub(crate) async fn send(&mut self, request: &[u8]) -> anyhow::Result<RawResponse> {
        self.socket.write_all(request).await?;
        let mut head = Vec::new();
        loop {
            let (piece, at) = self.read().await?;
            ensure!(!piece.is_empty(), "closed before the response head ended");
            head.extend_from_slice(piece);
            if let Some((status, framing, len)) = parse(&head)? {
                let early = head.get(len..).unwrap_or_default().to_vec();
                return Ok(RawResponse {
                    status,
                    framing,
                    early: (early, at),
                });
            }
        }
    }

    /// Passes the next piece of the body and its time of arrival in ns to `sink`.
    ///
    /// Returns false at the end of the body; a body that ends too early is an error.
    pub(crate) async fn next_piece(
        &mut self,
        reply: &mut RawResponse,
        mut sink: impl FnMut(&[u8], u64),
    ) -> anyhow::Result<bool> {
        if reply.framing.is_done() {
            return Ok(false);
        }
        let (early, at) = std::mem::take(&mut reply.early);
        if !early.is_empty() {
            reply.framing.feed(&early, &mut |data| sink(data, at))?;
            return Ok(true);
        }
        let (piece, at) = self.read().await?;
        if piece.is_empty() {
            ensure!(
                matches!(reply.framing, RawFraming::Close),
                "closed inside the body"
            );
            return Ok(false);
        }
        reply.framing.feed(piece, &mut |data| sink(data, at))?;
        Ok(true)
    }

    /// The rest of the body of `reply`.
    pub(crate) async fn read_to_end(&mut self, mut reply: RawResponse) -> anyhow::Result<Vec<u8>> {
        let mut body = Vec::new();
        while self
            .next_piece(&mut reply, |data, _| body.extend_from_slice(data))
            .await?
        {}
        Ok(body)
    }

    /// Frees the read buffer. A thousand connections that are only held open do not need theirs.
    pub(crate) fn free_buffer(&mut self) {
        self.buffer = Vec::new();
    }

    async fn read(&mut self) -> anyhow::Result<(&[u8], u64)> {
        let len = self.socket.read(&mut self.buffer).await?;
        Ok((self.buffer.get(..len).unwrap_or_default(), now_ns()))
    }
}

impl RawFraming {
    fn is_done(&self) -> bool {
        match self {
            Self::Chunked(dechunker) => dechunker.is_done(),
            Self::Length(left) => *left == 0,
            Self::Close => false,
        }
    }

    fn feed(&mut self, piece: &[u8], sink: &mut impl FnMut(&[u8])) -> anyhow::Result<()> {
        match self {
            Self::Chunked(dechunker) => {
                let left = dechunker.feed(piece, sink)?;
                ensure!(left.is_empty(), "bytes behind the end of the body");
            }
            Self::Length(left) => {
                *left = left
                    .checked_sub(piece.len() as u64)
                    .context("bytes behind the end of the body")?;
                sink(piece);
            }
            Self::Close => sink(piece),
        }
        Ok(())
    }
}

/// The status, framing and length of a response head; `None` while it is incomplete.
fn parse(bytes: &[u8]) -> anyhow::Result<Option<(u16, RawFraming, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(len) = head.parse(bytes)? else {
        return Ok(None);
    };
    let status = head.code.context("a head without a status")?;
    let mut framing = RawFraming::Close;
    for header in head.headers.iter() {
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            ensure!(header.value.eq_ignore_ascii_case(b"chunked"), "coding");
            framing = RawFraming::Chunked(Dechunker::new());
        } else if header.name.eq_ignore_ascii_case("content-length") {
            let Ok(length) = std::str::from_utf8(header.value)?.trim().parse() else {
                bail!("content-length is not a number");
            };
            framing = RawFraming::Length(length);
        }
    }
    Ok(Some((status, framing, len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_incomplete_before_its_last_byte() {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for end in 0..head.len() {
            assert!(parse(&head[..end]).unwrap().is_none(), "{end}");
        }
        let (status, framing, len) = parse(head).unwrap().unwrap();
        assert_eq!((status, len), (200, head.len()));
        assert!(matches!(framing, RawFraming::Chunked(_)));
    }
}
