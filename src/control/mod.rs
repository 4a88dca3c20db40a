//! The HTTP client with which commands of this program talk to the running server.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::request::Builder;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::app::HealthReport;
use crate::config::{Config, address};
use crate::secrets::Secret;

/// A client of the server that this configuration describes, on the same machine. A command
/// makes one; each request opens its own connection.
#[derive(Clone, Debug)]
pub struct ControlClient {
    address: SocketAddr,
    token: Option<Secret>,
}

/// Why the server gave no usable response. The messages say what to do.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Nothing listens on the address.
    #[error("no server runs on {0}")]
    NotRunning(SocketAddr),
    /// The connection failed for another reason.
    #[error("{address} was not reached")]
    Unreachable {
        /// The server's address.
        address: SocketAddr,
        /// The reason.
        source: std::io::Error,
    },
    /// Another program listens on the address. It was not sent the token.
    #[error(
        "another program listens on {0}, which is not Respondent; name the address of the server \
         with --listen, or the configuration that it runs with with --config"
    )]
    NotRespondent(SocketAddr),
    /// The server requires a token and this configuration has none.
    #[error(
        "the server on {0} asks for a token: set RESPONDENT_TOKEN, or token_env or token_file in \
         [server] of the configuration that this command reads, or name the server's with --config"
    )]
    TokenMissing(SocketAddr),
    /// The server does not accept the token of this configuration.
    #[error(
        "the server on {0} does not take the token of this configuration; name the configuration \
         that it runs with with --config"
    )]
    TokenRefused(SocketAddr),
    /// The server is a version that does not have this route.
    #[error("the server on {address} is version {version}, which cannot do this; restart it")]
    TooOld {
        /// The server's address.
        address: SocketAddr,
        /// Its version, from `/healthz`.
        version: String,
    },
    /// The server did not respond in time.
    #[error("the server on {0} did not answer in time")]
    TooSlow(SocketAddr),
    /// The response is larger than the largest one that is expected.
    #[error("the answer of the server on {0} is too large")]
    TooLarge(SocketAddr),
    /// The connection broke.
    #[error("the connection to the server on {address} broke")]
    Broken {
        /// The server's address.
        address: SocketAddr,
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Time limit for connecting; the server is on the same machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for `/healthz`, whose request may reach another program by mistake.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for any other response. Long, because the server builds a bundle meanwhile.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(2);

/// Maximum bytes of a response: more than the memory for recent turns.
const MAX_RESPONSE_BYTES: usize = 1 << 30;
/// Maximum bytes of the response to `/healthz`, which may come from another program.
const MAX_HEALTH_BYTES: usize = 64 << 10;

impl ControlClient {
    /// A client of the server of this configuration.
    pub fn new(config: &Config) -> Self {
        Self {
            address: address::local_client_address(config.server.listen),
            token: config.server.token.clone(),
        }
    }

    /// The server's address, as seen from this machine.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends `GET path` as [`ControlClient::send`] does.
    pub async fn get(&self, path: &str) -> Result<(StatusCode, Bytes), ControlError> {
        self.send(&Method::GET, path, Bytes::new()).await
    }

    /// Sends a request, whose body is JSON or empty, and returns the status and the whole
    /// body of the response. Status 401, and 404 for an unknown route, are errors. The token
    /// is sent only after `/healthz` has shown that the server is a respondent.
    pub async fn send(
        &self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ControlError> {
        let version = self.check_health().await?.version.into_owned();
        let request = Request::builder().method(method).uri(path);
        let exchange = self.exchange(request, body, self.token.as_ref(), MAX_RESPONSE_BYTES);
        let (status, body) = timeout(RESPONSE_TIMEOUT, exchange)
            .await
            .map_err(|_| ControlError::TooSlow(self.address))??;
        match status {
            StatusCode::UNAUTHORIZED if self.token.is_none() => {
                Err(ControlError::TokenMissing(self.address))
            }
            StatusCode::UNAUTHORIZED => Err(ControlError::TokenRefused(self.address)),
            StatusCode::NOT_FOUND if error_code(&body).as_deref() == Some("unknown_url") => {
                Err(ControlError::TooOld {
                    address: self.address,
                    version,
                })
            }
            _ => Ok((status, body)),
        }
    }

    /// Sends `GET path` to a server whose health was checked, and hands over the body of a 200 in
    /// pieces as they come, until `each` returns false or the body ends. Returns the status; other
    /// statuses come without their body, and 401 is no error here.
    pub async fn stream(
        &self,
        path: &str,
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> Result<StatusCode, ControlError> {
        self.check_health().await?;
        let request = Request::get(path);
        let broken = |source: BoxError| ControlError::Broken {
            address: self.address,
            source,
        };
        let stream = self.connect().await?;
        let request = request.header(HOST, self.address.to_string());
        let sent = open_over(stream, request, Bytes::new(), self.token.as_ref()).await;
        let mut response = sent.map_err(broken)?;
        while response.status() == StatusCode::OK
            && let Some(frame) = response.body_mut().frame().await
        {
            let frame = frame.map_err(|error| broken(error.into()))?;
            if let Some(bytes) = frame.data_ref()
                && !each(bytes)
            {
                break;
            }
        }
        Ok(response.status())
    }

    /// What the respondent at the address says of itself; an error if it is another program.
    pub async fn check_health(&self) -> Result<HealthReport, ControlError> {
        let not_respondent = || ControlError::NotRespondent(self.address);
        let exchange = self.exchange(
            Request::get("/healthz"),
            Bytes::new(),
            None,
            MAX_HEALTH_BYTES,
        );
        let Ok(result) = timeout(HEALTH_TIMEOUT, exchange).await else {
            return Err(not_respondent());
        };
        let (status, body) = match result {
            Ok(response) => response,
            Err(
                error @ (ControlError::NotRunning(_)
                | ControlError::Unreachable { .. }
                | ControlError::TooSlow(_)),
            ) => return Err(error),
            Err(_) => return Err(not_respondent()),
        };
        let health: HealthReport = serde_json::from_slice(&body).map_err(|_| not_respondent())?;
        if status == StatusCode::OK && health.name == env!("CARGO_PKG_NAME") {
            Ok(health)
        } else {
            Err(not_respondent())
        }
    }

    /// Connects to the server.
    async fn connect(&self) -> Result<TcpStream, ControlError> {
        let address = self.address;
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(source)) => Err(match source.kind() {
                // With port 0 the system chose the server's port, which is not known here.
                std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::AddrNotAvailable => {
                    ControlError::NotRunning(address)
                }
                _ => ControlError::Unreachable { address, source },
            }),
            Err(_) => Err(ControlError::TooSlow(address)),
        }
    }

    /// Sends one request on its own connection, without proxies and redirects.
    async fn exchange(
        &self,
        request: Builder,
        body: Bytes,
        token: Option<&Secret>,
        max_bytes: usize,
    ) -> Result<(StatusCode, Bytes), ControlError> {
        let address = self.address;
        let stream = self.connect().await?;
        let request = request.header(HOST, address.to_string());
        let sent = send_over(stream, request, body, token, max_bytes).await;
        sent.map_err(|source| {
            if source.is::<LengthLimitError>() {
                ControlError::TooLarge(address)
            } else {
                ControlError::Broken { address, source }
            }
        })
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

async fn send_over(
    stream: TcpStream,
    request: Builder,
    body: Bytes,
    token: Option<&Secret>,
    max_bytes: usize,
) -> Result<(StatusCode, Bytes), BoxError> {
    let response = open_over(stream, request, body, token).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), max_bytes)
        .collect()
        .await?;
    Ok((status, body.to_bytes()))
}

/// Sends a request and returns the response as soon as its head is there.
async fn open_over(
    stream: TcpStream,
    mut request: Builder,
    body: Bytes,
    token: Option<&Secret>,
) -> Result<Response<Incoming>, BoxError> {
    if !body.is_empty() {
        // The MCP endpoint requires both types in Accept.
        request = request
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
    }
    if let Some(token) = token {
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose()))?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // This task ends with the body, or when the response is dropped.
    tokio::spawn(connection);
    Ok(sender.send_request(request.body(Full::new(body))?).await?)
}

/// The error object in a response of the server, in the shape of OpenAI's API.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ApiError {
    /// The text for the user.
    pub message: String,
    /// The machine-readable code, such as `unknown_url`.
    #[serde(default)]
    pub code: Option<String>,
}

impl ApiError {
    /// The message of the error in a response body; empty if there is none.
    pub fn message_in(body: &[u8]) -> String {
        Self::from_body(body).map_or_else(String::new, |error| error.message)
    }

    /// Parses `{"error": {…}}`; `None` if the body is something else.
    pub fn from_body(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct ErrorReply {
            error: ApiError,
        }
        let envelope: ErrorReply = serde_json::from_slice(body).ok()?;
        Some(envelope.error)
    }
}

fn error_code(body: &[u8]) -> Option<String> {
    ApiError::from_body(body)?.code
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that sends one of `responses` per connection and records the request heads.
    async fn server(
        responses: &'static [&'static str],
    ) -> (ControlClient, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let control = ControlClient {
            address: listener.local_addr().unwrap(),
            token: Secret::new("the-token"),
        };
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let record = Arc::clone(&requests);
        tokio::spawn(async move {
            for response in responses {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                record
                    .lock()
                    .unwrap()
                    .push(String::from_utf8(head).unwrap());
                stream.write_all(response.as_bytes()).await.unwrap();
            }
        });
        (control, requests)
    }

    const HEALTHY: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n\
        {\"status\":\"ok\",\"name\":\"respondent\",\"version\":\"0.0.1\"}";

    #[tokio::test]
    async fn a_respondent_is_sent_the_token() {
        let (control, requests) =
            server(&[HEALTHY, "HTTP/1.1 418 x\r\ncontent-length: 2\r\n\r\nhi"]).await;
        let (status, body) = control.get("/some?path=1").await.unwrap();
        assert_eq!((status.as_u16(), &body[..]), (418, &b"hi"[..]));
        let requests = requests.lock().unwrap();
        let [health, path] = requests.as_slice() else {
            panic!("{requests:?}")
        };
        assert!(health.starts_with("GET /healthz HTTP/1.1\r\n"), "{health}");
        assert!(!health.contains("the-token"), "{health}");
        assert!(path.starts_with("GET /some?path=1 HTTP/1.1\r\n"), "{path}");
        assert!(
            path.contains("authorization: Bearer the-token\r\n"),
            "{path}"
        );
        assert!(
            path.contains(&format!("host: {}\r\n", control.address)),
            "{path}"
        );
    }

    #[tokio::test]
    async fn another_program_is_not_sent_the_token() {
        for response in [
            "HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"status\":\"ok\",\"version\":\"1\"}",
            "HTTP/1.1 302 Found\r\nlocation: /x\r\nconnection: close\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n",
            "",
        ] {
            let responses: &'static [&'static str] = Box::leak(Box::new([response]));
            let (control, requests) = server(responses).await;
            let error = control.get("/x").await.unwrap_err();
            assert!(
                matches!(error, ControlError::NotRespondent(_)),
                "{response}: {error}"
            );
            assert_eq!(requests.lock().unwrap().len(), 1);
        }
    }

    #[tokio::test]
    async fn token_and_version_errors_are_distinguished() {
        let unauthorized = "HTTP/1.1 401 x\r\ncontent-length: 0\r\n\r\n";
        let (mut control, _) = server(Box::leak(Box::new([HEALTHY, unauthorized]))).await;
        let error = control.get("/x").await.unwrap_err();
        assert!(matches!(error, ControlError::TokenRefused(_)), "{error}");
        (control, _) = server(Box::leak(Box::new([HEALTHY, unauthorized]))).await;
        control.token = None;
        let error = control.get("/x").await.unwrap_err();
        assert!(matches!(error, ControlError::TokenMissing(_)), "{error}");
        let old = "HTTP/1.1 404 x\r\nconnection: close\r\n\r\n\
            {\"error\":{\"message\":\"m\",\"type\":\"t\",\"param\":null,\"code\":\"unknown_url\"}}";
        (control, _) = server(Box::leak(Box::new([HEALTHY, old]))).await;
        let error = control.get("/x").await.unwrap_err();
        assert!(error.to_string().contains("version 0.0.1"), "{error}");
    }

    #[tokio::test]
    async fn an_address_without_a_server_is_reported_as_not_running() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        for address in [address, "127.0.0.1:0".parse().unwrap()] {
            let control = ControlClient {
                address,
                token: None,
            };
            let error = control.get("/x").await.unwrap_err();
            assert!(matches!(error, ControlError::NotRunning(_)), "{error}");
        }
    }
}
