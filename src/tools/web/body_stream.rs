//! An answer whose body is read as it arrives.

use std::time::Duration;

use http::response::Parts;
use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::client::{MAX_HEAD, WebClient, WebError, WebRequest, broken, http_request};

/// The body of an answer. Dropping it ends the connection.
pub struct BodyStream {
    body: Incoming,
    _connection: AbortOnDropHandle<()>,
}

impl BodyStream {
    /// The next bytes as they were sent; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, WebError>> {
        loop {
            match self.body.frame().await? {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
                Err(error) => return Some(Err(broken(error))),
            }
        }
    }
}

impl WebClient {
    /// Sends a request, and returns the head of its answer and its body, which may go on for as
    /// long as it likes. `head` is the time until the head is there.
    pub async fn open(
        &self,
        request: WebRequest,
        head: Duration,
    ) -> Result<(Parts, BodyStream), WebError> {
        let opening = async {
            let connection = self.connect(&request.url).await?;
            let mut builder = http1::Builder::new();
            builder.max_buf_size(MAX_HEAD);
            let handshake = builder.handshake(TokioIo::new(connection)).await;
            let (mut sender, connection) = handshake.map_err(broken)?;
            let driven = tokio::spawn(async move {
                connection.await.ok();
            });
            let driven = AbortOnDropHandle::new(driven);
            let sent = sender.send_request(http_request(request)?).await;
            let (parts, body) = sent.map_err(broken)?.into_parts();
            let body = BodyStream {
                body,
                _connection: driven,
            };
            Ok((parts, body))
        };
        let opened = timeout_at(Instant::now() + head, opening).await;
        opened.map_err(|_| WebError::Timeout(head))?
    }
}
