//! One raw HTTP/1.1 connection: what arrives is timed before anything else looks at it.

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
pub(crate) struct Reply {
    /// The HTTP status.
    pub(crate) status: u16,
    framing: Framing,
    /// Body bytes that came with the head, and when.
    early: (Vec<u8>, u64),
}

enum Framing {
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
    pub(crate) async fn send(&mut self, request: &[u8]) -> anyhow::Result<Reply> {
        self.socket.write_all(request).await?;
        let mut head = Vec::new();
        loop {
            let (piece, at) = self.read().await?;
            ensure!(!piece.is_empty(), "closed before the response head ended");
            head.extend_from_slice(piece);
            if let Some((status, framing, len)) = parse(&head)? {
                let early = head.get(len..).unwrap_or_default().to_vec();
                return Ok(Reply {
                    status,
                    framing,
                    early: (early, at),
                });
            }
        }
    }

    /// Hands the next piece of the body, with its time of arrival in ns, to `sink`.
    ///
    /// False when the body has ended; a body that ends too early is an error.
    pub(crate) async fn next(
        &mut self,
        reply: &mut Reply,
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
                matches!(reply.framing, Framing::Close),
                "closed inside the body"
            );
            return Ok(false);
        }
        reply.framing.feed(piece, &mut |data| sink(data, at))?;
        Ok(true)
    }

    /// The whole body of `reply`.
    pub(crate) async fn rest(&mut self, mut reply: Reply) -> anyhow::Result<Vec<u8>> {
        let mut body = Vec::new();
        while self
            .next(&mut reply, |data, _| body.extend_from_slice(data))
            .await?
        {}
        Ok(body)
    }

    /// Gives the buffer back: a thousand held connections need none.
    pub(crate) fn shrink(&mut self) {
        self.buffer = Vec::new();
    }

    async fn read(&mut self) -> anyhow::Result<(&[u8], u64)> {
        let len = self.socket.read(&mut self.buffer).await?;
        Ok((self.buffer.get(..len).unwrap_or_default(), now_ns()))
    }
}

impl Framing {
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

/// Status, framing and length of a complete head; none while it is not complete.
fn parse(bytes: &[u8]) -> anyhow::Result<Option<(u16, Framing, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(len) = head.parse(bytes)? else {
        return Ok(None);
    };
    let status = head.code.context("a head without a status")?;
    let mut framing = Framing::Close;
    for header in head.headers.iter() {
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            ensure!(header.value.eq_ignore_ascii_case(b"chunked"), "coding");
            framing = Framing::Chunked(Dechunker::new());
        } else if header.name.eq_ignore_ascii_case("content-length") {
            let Ok(length) = std::str::from_utf8(header.value)?.trim().parse() else {
                bail!("content-length is not a number");
            };
            framing = Framing::Length(length);
        }
    }
    Ok(Some((status, framing, len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_complete_at_its_last_byte_only() {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for end in 0..head.len() {
            assert!(parse(&head[..end]).unwrap().is_none(), "{end}");
        }
        let (status, framing, len) = parse(head).unwrap().unwrap();
        assert_eq!((status, len), (200, head.len()));
        assert!(matches!(framing, Framing::Chunked(_)));
    }
}
