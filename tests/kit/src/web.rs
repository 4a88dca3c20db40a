//! A server of the web on loopback: a search engine, pages, or a browser elsewhere. It answers as a
//! test says, also as servers do that are slow, broken or hostile, and remembers what it was asked.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{self, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// A running server. Dropping it ends the listener; connections end with their clients.
#[derive(Debug)]
pub struct WebServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<WebServerRequest>>>,
    connections: watch::Sender<usize>,
    _task: AbortOnDropHandle<()>,
}

/// A request that it got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebServerRequest {
    /// The method, in upper case.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Request line and headers, as sent.
    pub head: String,
    /// The body. Bytes that are not UTF-8 are replaced.
    pub body: String,
    /// How many requests with this method and path came before it.
    pub earlier: usize,
}

/// What a server sends, and what it does then.
#[derive(Clone, Debug)]
pub struct WebAnswer {
    bytes: Vec<u8>,
    then: AfterAnswer,
}

#[derive(Clone, Copy, Debug)]
enum AfterAnswer {
    Close,
    SaysNothing,
    SendsWithoutEnd,
}

impl WebAnswer {
    /// A whole answer with this status, content type and body.
    pub fn new(status: u16, content_type: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} x\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n"
        );
        Self::raw([head.as_bytes(), body].concat())
    }

    /// These bytes, whatever they are; then the connection is closed.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: bytes.into(),
            then: AfterAnswer::Close,
        }
    }

    /// Sends nothing more, and keeps the connection open.
    #[must_use]
    pub fn then_silence(mut self) -> Self {
        self.then = AfterAnswer::SaysNothing;
        self
    }

    /// Sends more of the body, without an end.
    #[must_use]
    pub fn without_end(mut self) -> Self {
        self.then = AfterAnswer::SendsWithoutEnd;
        self
    }
}

impl WebServer {
    /// Starts a server on any free port.
    ///
    /// # Errors
    /// If no port can be opened.
    pub async fn start(
        answer: impl Fn(&WebServerRequest) -> WebAnswer + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), answer).await
    }

    /// Starts a server at an address of this machine.
    ///
    /// # Errors
    /// If the address is not one, or is used.
    pub async fn start_at(
        address: SocketAddr,
        answer: impl Fn(&WebServerRequest) -> WebAnswer + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let requests = Arc::<Mutex<Vec<WebServerRequest>>>::default();
        let (log, answer) = (Arc::clone(&requests), Arc::new(answer));
        let connections = watch::Sender::new(0);
        let open = connections.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                let open = open.clone();
                open.send_modify(|count| *count += 1);
                tokio::spawn(async move {
                    // A client that leaves is no fault of the server.
                    serve(stream, &log, &*answer).await.ok();
                    open.send_modify(|count| *count -= 1);
                });
            }
        });
        Ok(Self {
            address,
            requests,
            connections,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Waits until `count` connections are open.
    pub async fn wait_for_connections(&self, count: usize) {
        let mut open = self.connections.subscribe();
        // The sender lives as long as this server.
        open.wait_for(|open| *open == count).await.ok();
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<WebServerRequest> {
        lock(&self.requests).clone()
    }
}

async fn serve(
    stream: TcpStream,
    log: &Mutex<Vec<WebServerRequest>>,
    answer: &(impl Fn(&WebServerRequest) -> WebAnswer + Sync),
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut request = read(&mut stream).await?;
    {
        let mut log = lock(log);
        let is_same =
            |it: &&WebServerRequest| (&it.method, &it.path) == (&request.method, &request.path);
        request.earlier = log.iter().filter(is_same).count();
        log.push(request.clone());
    }
    let WebAnswer { bytes, then } = answer(&request);
    stream.write_all(&bytes).await?;
    match then {
        AfterAnswer::Close => stream.shutdown().await,
        // It ends with the client.
        AfterAnswer::SaysNothing => stream.read_u8().await.map(|_| ()),
        AfterAnswer::SendsWithoutEnd => loop {
            stream.write_all(&[b'x'; 8192]).await?;
        },
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<WebServerRequest> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let lower = head.to_ascii_lowercase();
    let length = lower.split("content-length: ").nth(1);
    let length = length.and_then(|rest| rest.lines().next()?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    let mut words = head.split(' ');
    let mut word = || words.next().unwrap_or_default().to_owned();
    Ok(WebServerRequest {
        method: word(),
        path: word(),
        body: String::from_utf8_lossy(&body).into_owned(),
        head,
        earlier: 0,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
