//! A Chat Completions upstream. The model name is the script of its stream, and it does as little
//! work as possible besides.

use std::{borrow::Cow, convert::Infallible, str::FromStr};

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpListener;

use crate::{events::ScriptedBody, script::Script};

/// The text of the response that is not streamed. The loader checks for it.
pub(crate) const SMALL_TEXT: &str = "a small benchmark reply";

const SMALL: &str = r#"{"id":"chatcmpl-bench","object":"chat.completion","created":1760000000,"model":"bench","choices":[{"index":0,"message":{"role":"assistant","content":"a small benchmark reply"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105}}"#;

type BenchResponse = Response<Either<Full<Bytes>, ScriptedBody>>;

/// The two fields of a request that the upstream reads.
#[derive(Deserialize)]
struct BenchRequest<'a> {
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(default)]
    stream: bool,
}

/// Serves until the process ends.
pub(crate) async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            continue;
        };
        socket.set_nodelay(true)?;
        tokio::spawn(async move {
            // A client that disconnects ends only its own connection.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service_fn(answer))
                .await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<BenchResponse, Infallible> {
    if request.method() == Method::GET {
        return Ok(whole(StatusCode::OK, Bytes::from_static(b"{}")));
    }
    let Ok(body) = request.into_body().collect().await else {
        return Ok(refusal("the body ended early"));
    };
    let body = body.to_bytes();
    Ok(match serde_json::from_slice::<BenchRequest<'_>>(&body) {
        Ok(ask) if ask.stream => match Script::from_str(&ask.model) {
            Ok(script) => stream(script),
            Err(error) => refusal(&error.to_string()),
        },
        Ok(_) => whole(StatusCode::OK, Bytes::from_static(SMALL.as_bytes())),
        Err(error) => refusal(&error.to_string()),
    })
}

fn stream(script: Script) -> BenchResponse {
    let mut reply = Response::new(Either::Right(ScriptedBody::new(script)));
    let kind = HeaderValue::from_static("text/event-stream");
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply
}

fn whole(status: StatusCode, body: Bytes) -> BenchResponse {
    let mut reply = Response::new(Either::Left(Full::new(body)));
    *reply.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply
}

fn refusal(message: &str) -> BenchResponse {
    let body = serde_json::json!({"error": {"message": message, "type": "invalid_request_error"}});
    whole(StatusCode::BAD_REQUEST, body.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_reply_has_its_text() {
        let reply: serde_json::Value = serde_json::from_str(SMALL).unwrap();
        assert_eq!(reply["choices"][0]["message"]["content"], SMALL_TEXT);
    }
}
