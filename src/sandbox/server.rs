//! The Chat Completions server of the sandbox, on a free loopback port.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Either, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::model;
use super::reply::{RenderedReply, error_body};
use super::request::ChatRequest;

/// A larger request body ends the connection.
const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// The running server. `commands::serve::run_server` starts it when the sandbox is on; dropping it
/// ends the listener and all connections.
#[derive(Debug)]
pub struct Sandbox {
    address: SocketAddr,
    _stop: DropGuard,
}

impl Sandbox {
    /// Listens on a free loopback port and answers for these model ids.
    ///
    /// # Errors
    /// No port could be bound.
    pub async fn start(models: Vec<String>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let accepting = accept(listener, models.into(), stop.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(accepting));
        Ok(Self {
            address,
            _stop: stop.drop_guard(),
        })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept(listener: TcpListener, models: Arc<[String]>, stop: CancellationToken) {
    loop {
        // Accepting fails while the process has no free file descriptor.
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let connection = serve(socket, Arc::clone(&models));
        tokio::spawn(stop.clone().run_until_cancelled_owned(connection));
    }
}

async fn serve(socket: TcpStream, models: Arc<[String]>) {
    // A failure costs latency only.
    let _ = socket.set_nodelay(true);
    let service = service_fn(|request| respond(request, &models));
    // An error means that the client is gone or does not speak HTTP; the connection is over.
    let _ = http1::Builder::new()
        .auto_date_header(false)
        .serve_connection(TokioIo::new(socket), service)
        .await;
}

/// One chunk of a streamed body.
type ReplyChunk = Result<Frame<Bytes>, Infallible>;
/// A whole body, or chunks.
type SandboxBody = Either<Full<Bytes>, StreamBody<stream::Iter<std::vec::IntoIter<ReplyChunk>>>>;

async fn respond(
    request: Request<Incoming>,
    models: &[String],
) -> Result<Response<SandboxBody>, Box<dyn Error + Send + Sync>> {
    let (head, body) = request.into_parts();
    if head.method == Method::GET && head.uri.path().ends_with("/models") {
        return Ok(document(StatusCode::OK, &model_list(models)));
    }
    if head.method != Method::POST {
        return Ok(document(
            StatusCode::NOT_FOUND,
            &error_body("no such route"),
        ));
    }
    let body = Limited::new(body, BODY_LIMIT).collect().await?.to_bytes();
    let request = ChatRequest::parse(&body);
    Ok(match model::reply(&request).render(&request) {
        RenderedReply::Document { status, json } => document(status, &json),
        RenderedReply::Events(chunks) => {
            let chunks: Vec<ReplyChunk> = chunks
                .into_iter()
                .map(|chunk| Ok(Frame::data(chunk.into())))
                .collect();
            let body = Either::Right(StreamBody::new(stream::iter(chunks)));
            response(StatusCode::OK, "text/event-stream", body)
        }
    })
}

fn model_list(models: &[String]) -> Value {
    let model =
        |id: &String| json!({"id": id, "object": "model", "created": 0, "owned_by": "scripted"});
    let data: Vec<Value> = models.iter().map(model).collect();
    json!({"object": "list", "data": data})
}

fn document(status: StatusCode, json: &Value) -> Response<SandboxBody> {
    let body = Either::Left(Full::new(json.to_string().into()));
    response(status, "application/json", body)
}

fn response(
    status: StatusCode,
    content_type: &'static str,
    body: SandboxBody,
) -> Response<SandboxBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}
