//! The commands as a client of the running server.

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

use crate::config::{Config, address};
use crate::secrets::Secret;

/// The server that this configuration describes, seen from the same machine.
#[derive(Clone, Debug)]
pub struct ControlClient {
    address: SocketAddr,
    token: Option<Secret>,
}

/// Why there is no answer; the messages say what to do.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Nobody listens there.
    #[error("no server runs on {0}")]
    NotRunning(SocketAddr),
    /// The address was not reached for another reason.
    #[error("{address} was not reached")]
    Unreachable {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Somebody else listens there. It was not shown the token.
    #[error(
        "another program listens on {0}, which is no respondent; name the address of the server \
         with --listen, or the configuration that it runs with with --config"
    )]
    NotRespondent(SocketAddr),
    /// The server asks for a token.
    #[error(
        "the server on {0} asks for a token: set token_env or token_file in [server] of the \
         configuration that this command reads, or name the server's with --config"
    )]
    TokenMissing(SocketAddr),
    /// The server does not take the token.
    #[error(
        "the server on {0} does not take the token of this configuration; name the configuration \
         that it runs with with --config"
    )]
    TokenRefused(SocketAddr),
    /// The server is of a version without this.
    #[error("the server on {address} is version {version}, which cannot do this; start it anew")]
    TooOld {
        /// Where.
        address: SocketAddr,
        /// What it said of itself.
        version: String,
    },
    /// No answer in time.
    #[error("the server on {0} did not answer in time")]
    TooSlow(SocketAddr),
    /// The answer is larger than anything that is asked for.
    #[error("the answer of the server on {0} is too large")]
    TooLarge(SocketAddr),
    /// The connection broke.
    #[error("the connection to the server on {address} broke")]
    Broken {
        /// Where.
        address: SocketAddr,
        /// How.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// For the connection, on the same machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// For the answer of a program that is perhaps none of ours.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);
/// For any other answer: bundles are made while it is waited for.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(2);

/// Bytes of an answer at most: above the memory that recent turns get.
const MAX_RESPONSE_BYTES: usize = 1 << 30;
/// The same for a program that is perhaps none of ours.
const MAX_HEALTH_BYTES: usize = 64 << 10;

/// What the server says of itself, as far as it matters here.
#[derive(Deserialize)]
struct HealthResponse {
    name: String,
    version: String,
}

impl ControlClient {
    /// The server of this configuration.
    pub fn new(config: &Config) -> Self {
        Self {
            address: address::local_client_address(config.server.listen),
            token: config.server.token.clone(),
        }
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `GET path`, as [`Control::send`].
    pub async fn get(&self, path: &str) -> Result<(StatusCode, Bytes), ControlError> {
        self.send(&Method::GET, path, Bytes::new()).await
    }

    /// A request with this body, which is JSON if there is any: the status and the
    /// whole body of the answer. 401 and 404 of the path itself are errors here. The
    /// token is shown to a respondent alone.
    pub async fn send(
        &self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ControlError> {
        let version = self.check_health().await?;
        let request = Request::builder().method(method).uri(path);
        let asked = self.exchange(request, body, self.token.as_ref(), MAX_RESPONSE_BYTES);
        let (status, body) = timeout(RESPONSE_TIMEOUT, asked)
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

    /// The version of the respondent that listens there.
    async fn check_health(&self) -> Result<String, ControlError> {
        let foreign = || ControlError::NotRespondent(self.address);
        let asked = self.exchange(
            Request::get("/healthz"),
            Bytes::new(),
            None,
            MAX_HEALTH_BYTES,
        );
        let Ok(answered) = timeout(HEALTH_TIMEOUT, asked).await else {
            return Err(foreign());
        };
        let (status, body) = match answered {
            Ok(answer) => answer,
            Err(
                error @ (ControlError::NotRunning(_)
                | ControlError::Unreachable { .. }
                | ControlError::TooSlow(_)),
            ) => return Err(error),
            Err(_) => return Err(foreign()),
        };
        let health: HealthResponse = serde_json::from_slice(&body).map_err(|_| foreign())?;
        if status == StatusCode::OK && health.name == env!("CARGO_PKG_NAME") {
            Ok(health.version)
        } else {
            Err(foreign())
        }
    }

    async fn exchange(
        &self,
        request: Builder,
        body: Bytes,
        token: Option<&Secret>,
        largest: usize,
    ) -> Result<(StatusCode, Bytes), ControlError> {
        let broken = |source: Box<dyn std::error::Error + Send + Sync>| ControlError::Broken {
            address: self.address,
            source,
        };
        let response = self.connect_and_send(request, body, token).await?;
        let status = response.status();
        match Limited::new(response.into_body(), largest).collect().await {
            Ok(body) => Ok((status, body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(ControlError::TooLarge(self.address))
            }
            Err(error) => Err(broken(error)),
        }
    }

    /// One request on a connection of its own: no proxy, no redirect.
    async fn connect_and_send(
        &self,
        mut request: Builder,
        body: Bytes,
        token: Option<&Secret>,
    ) -> Result<Response<Incoming>, ControlError> {
        let address = self.address;
        let broken = |source: Box<dyn std::error::Error + Send + Sync>| ControlError::Broken {
            address,
            source,
        };
        let stream = match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(source)) => {
                return Err(match source.kind() {
                    // Port 0 is none: the server chose one, and it is not known which.
                    std::io::ErrorKind::ConnectionRefused
                    | std::io::ErrorKind::AddrNotAvailable => ControlError::NotRunning(address),
                    _ => ControlError::Unreachable { address, source },
                });
            }
            Err(_) => return Err(ControlError::TooSlow(address)),
        };
        request = request.header(HOST, address.to_string());
        if !body.is_empty() {
            // An MCP server asks for both types in Accept.
            request = request
                .header(CONTENT_TYPE, "application/json")
                .header(ACCEPT, "application/json, text/event-stream");
        }
        if let Some(token) = token {
            let value = format!("Bearer {}", token.expose());
            let mut value = HeaderValue::try_from(value).map_err(|error| broken(error.into()))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request
            .body(Full::new(body))
            .map_err(|error| broken(error.into()))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(error.into()))?;
        // It ends with the body, or when the response is dropped.
        tokio::spawn(connection);
        sender
            .send_request(request)
            .await
            .map_err(|error| broken(error.into()))
    }
}

/// What the server says of a refusal.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ApiError {
    /// For people.
    pub message: String,
    /// For programs.
    #[serde(default)]
    pub code: Option<String>,
}

impl ApiError {
    /// The refusal in a body of the usual shape.
    pub fn from_body(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct ErrorEnvelope {
            error: ApiError,
        }
        let envelope: ErrorEnvelope = serde_json::from_slice(body).ok()?;
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

    /// Answers each connection with the next of these, and keeps what it was asked.
    async fn program(answers: &'static [&'static str]) -> (ControlClient, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let control = ControlClient {
            address: listener.local_addr().unwrap(),
            token: Secret::new("the-token"),
        };
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let keep = Arc::clone(&asked);
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                keep.lock().unwrap().push(String::from_utf8(head).unwrap());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        (control, asked)
    }

    const HEALTHY: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n\
        {\"status\":\"ok\",\"name\":\"respondent\",\"version\":\"0.0.1\"}";

    #[tokio::test]
    async fn a_respondent_is_asked_with_the_token() {
        let (control, asked) =
            program(&[HEALTHY, "HTTP/1.1 418 x\r\ncontent-length: 2\r\n\r\nhi"]).await;
        let (status, body) = control.get("/some?path=1").await.unwrap();
        assert_eq!((status.as_u16(), &body[..]), (418, &b"hi"[..]));
        let asked = asked.lock().unwrap();
        let [health, path] = asked.as_slice() else {
            panic!("{asked:?}")
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
    async fn another_program_is_not_shown_the_token() {
        for answer in [
            "HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"status\":\"ok\",\"version\":\"1\"}",
            "HTTP/1.1 302 Found\r\nlocation: /x\r\nconnection: close\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n",
            "",
        ] {
            let answers: &'static [&'static str] = Box::leak(Box::new([answer]));
            let (control, asked) = program(answers).await;
            let error = control.get("/x").await.unwrap_err();
            assert!(
                matches!(error, ControlError::NotRespondent(_)),
                "{answer}: {error}"
            );
            assert_eq!(asked.lock().unwrap().len(), 1);
        }
    }

    #[tokio::test]
    async fn refusals_say_what_to_do() {
        let unauthorized = "HTTP/1.1 401 x\r\ncontent-length: 0\r\n\r\n";
        let (mut control, _) = program(Box::leak(Box::new([HEALTHY, unauthorized]))).await;
        let error = control.get("/x").await.unwrap_err();
        assert!(matches!(error, ControlError::TokenRefused(_)), "{error}");
        (control, _) = program(Box::leak(Box::new([HEALTHY, unauthorized]))).await;
        control.token = None;
        let error = control.get("/x").await.unwrap_err();
        assert!(matches!(error, ControlError::TokenMissing(_)), "{error}");
        let old = "HTTP/1.1 404 x\r\nconnection: close\r\n\r\n\
            {\"error\":{\"message\":\"m\",\"type\":\"t\",\"param\":null,\"code\":\"unknown_url\"}}";
        (control, _) = program(Box::leak(Box::new([HEALTHY, old]))).await;
        let error = control.get("/x").await.unwrap_err();
        assert!(error.to_string().contains("version 0.0.1"), "{error}");
    }

    #[tokio::test]
    async fn nobody_there_is_told_apart() {
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
