//! Servers on loopback that answer as search engines and pages do.
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::proxy::AbortOnDrop;

/// A running server. Dropping it ends it.
pub struct FakeServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<FakeRequest>>>,
    _task: AbortOnDrop,
}

/// A request that it got.
#[derive(Clone, Debug)]
pub struct FakeRequest {
    /// Request line and headers.
    pub head: String,
    pub body: String,
}

impl FakeRequest {
    /// The path with its query.
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }
}

/// The answer to a request: status, type and body.
pub type FakeAnswer = (u16, &'static str, String);

impl FakeServer {
    pub async fn start(
        answer: impl Fn(&FakeRequest) -> FakeAnswer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<FakeRequest>>>::default();
        let (log, answer) = (Arc::clone(&requests), Arc::new(answer));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let request = read(&mut stream).await;
                    log.lock().unwrap().push(request.clone());
                    let (status, kind, body) = answer(&request);
                    let head = format!(
                        "HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
                        body.len()
                    );
                    stream.write_all((head + &body).as_bytes()).await.ok();
                });
            }
        });
        Self {
            address,
            requests,
            _task: AbortOnDrop(task.abort_handle()),
        }
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<FakeRequest> {
        self.requests.lock().unwrap().clone()
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> FakeRequest {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.to_ascii_lowercase();
    let length = length.split("content-length: ").nth(1);
    let length = length.map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    FakeRequest {
        head,
        body: String::from_utf8(body).unwrap(),
    }
}
