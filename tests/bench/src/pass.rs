//! The baseline: a minimal proxy on hyper that forwards requests and responses unchanged.

use std::{convert::Infallible, net::SocketAddr};

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::{
    Request, Response, StatusCode, Uri,
    body::Incoming,
    header::{CONNECTION, HOST},
    http::uri::{Authority, PathAndQuery, Scheme},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::net::TcpListener;

/// The buffer size of a connection. The default limit of hyper, about 400 KB, uses more memory in a
/// flood without being faster.
const BUFFER: usize = 64 * 1024;

type Pool = Client<HttpConnector, Incoming>;
type PassResponse = Response<Either<Incoming, Full<Bytes>>>;

/// Serves until the process ends.
pub(crate) async fn serve(listener: TcpListener, upstream: SocketAddr) -> anyhow::Result<()> {
    let authority = Authority::try_from(upstream.to_string())?;
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let pool: Pool = Client::builder(TokioExecutor::new())
        .http1_max_buf_size(BUFFER)
        .build(connector);
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            continue;
        };
        socket.set_nodelay(true)?;
        let (pool, authority) = (pool.clone(), authority.clone());
        tokio::spawn(async move {
            let service = service_fn(|request| forward(&pool, &authority, request));
            // A client that disconnects ends only its own connection.
            let _ = http1::Builder::new()
                .max_buf_size(BUFFER)
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}

async fn forward(
    pool: &Pool,
    authority: &Authority,
    mut request: Request<Incoming>,
) -> Result<PassResponse, Infallible> {
    let mut target = request.uri().clone().into_parts();
    target.scheme = Some(Scheme::HTTP);
    target.authority = Some(authority.clone());
    target
        .path_and_query
        .get_or_insert(PathAndQuery::from_static("/"));
    if let Ok(uri) = Uri::from_parts(target) {
        *request.uri_mut() = uri;
    }
    request.headers_mut().remove(HOST);
    request.headers_mut().remove(CONNECTION);
    Ok(match pool.request(request).await {
        Ok(reply) => reply.map(Either::Left),
        Err(error) => {
            let mut reply = Response::new(Either::Right(Full::from(error.to_string())));
            *reply.status_mut() = StatusCode::BAD_GATEWAY;
            reply
        }
    })
}
