//! The way of a browser to the network: an HTTP proxy on loopback that reaches nothing but pages.
//! Each address is checked as for a page that the proxy gets itself, when it is connected to.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Url;

use super::page_url::check;
use crate::tools::web::dialler::{Connection, WebDialler};

/// The most connections at once, and for one page.
const MAX_OPEN: usize = 64;
const MAX_CONNECTIONS: usize = 500;
/// The largest head of a request, in bytes.
const MAX_HEAD: usize = 64 << 10;
/// The most that a server sends on one connection, in bytes.
const MAX_RECEIVED: u64 = 20 << 20;

/// The proxy of one browser. It ends when it is dropped.
pub(super) struct GuardedProxy {
    listener: TcpListener,
    address: SocketAddr,
    dialler: WebDialler,
}

impl GuardedProxy {
    /// A proxy that reaches what this dialler may reach. It listens, and does nothing yet.
    pub(super) async fn bind(dialler: WebDialler) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Self {
            address: listener.local_addr()?,
            listener,
            dialler,
        })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the browser until too many connections were made.
    pub(super) async fn serve(&self) {
        let mut connections = JoinSet::new();
        for _ in 0..MAX_CONNECTIONS {
            let Ok((browser, _)) = self.listener.accept().await else {
                return;
            };
            while connections.len() >= MAX_OPEN {
                connections.join_next().await;
            }
            let dialler = self.dialler.clone();
            connections.spawn(async move {
                // The browser sees that the connection ends.
                serve(browser, &dialler).await.ok();
            });
        }
    }
}

async fn serve(mut browser: TcpStream, dialler: &WebDialler) -> io::Result<()> {
    let mut head = Vec::new();
    let end = loop {
        if let Some(at) = memchr::memmem::find(&head, b"\r\n\r\n") {
            break at;
        }
        if head.len() > MAX_HEAD || browser.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    };
    let (head, body) = head.split_at(end + 4);
    let request = str::from_utf8(head).ok().and_then(ProxyRequest::of);
    let Some(request) = request else {
        return refuse(browser).await;
    };
    let Some(server) = connect(&request.url, dialler).await else {
        return refuse(browser).await;
    };
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let (mut from_browser, mut to_browser) = browser.split();
    match request.head {
        None => to_browser.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?,
        Some(head) => to_server.write_all(head.as_bytes()).await?,
    }
    to_server.write_all(body).await?;
    let sent = async {
        copy(&mut from_browser, &mut to_server).await?;
        to_server.shutdown().await
    };
    let received = async {
        copy(&mut (&mut from_server).take(MAX_RECEIVED), &mut to_browser).await?;
        to_browser.shutdown().await
    };
    // Nothing is sent any more to a server that has ended.
    tokio::select! {
        received = received => received,
        Err(error) = sent => Err(error),
    }
}

async fn connect(url: &Url, dialler: &WebDialler) -> Option<Box<dyn Connection>> {
    check(url).ok()?;
    let (host, port) = (url.host()?, url.port_or_known_default()?);
    dialler.connect(&host, port).await.ok()
}

/// Its body is one that no reader takes for a page.
async fn refuse(mut browser: TcpStream) -> io::Result<()> {
    let answer = "HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno";
    browser.write_all(answer.as_bytes()).await
}

/// What a browser asks its proxy for.
#[derive(Debug, PartialEq, Eq)]
struct ProxyRequest {
    /// Whom it wants to reach.
    url: Url,
    /// What the server gets instead of the head; none for a tunnel.
    head: Option<String>,
}

impl ProxyRequest {
    fn of(head: &str) -> Option<Self> {
        let (line, headers) = head.split_once("\r\n")?;
        let mut words = line.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        if method == "CONNECT" {
            let url = Url::parse(&format!("https://{target}/")).ok()?;
            let is_host = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
            return is_host.then_some(Self { url, head: None });
        }
        let url = Url::parse(target)
            .ok()
            .filter(|url| url.scheme() == "http")?;
        let query = url.query().map(|query| format!("?{query}"));
        let path = url.path();
        let mut sent = format!("{method} {path}{} HTTP/1.1\r\n", query.unwrap_or_default());
        // The next request may be for another server.
        sent += "connection: close\r\n";
        for header in headers.split_terminator("\r\n").filter(|it| !it.is_empty()) {
            let name = header.split(':').next()?.trim().to_ascii_lowercase();
            if !matches!(
                name.as_str(),
                "connection" | "proxy-connection" | "keep-alive"
            ) {
                sent += header;
                sent += "\r\n";
            }
        }
        sent += "\r\n";
        Some(Self {
            url,
            head: Some(sent),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_to_the_proxy_names_its_server() {
        let of = |head: &str| {
            let request = ProxyRequest::of(head)?;
            Some((request.url.to_string(), request.head))
        };
        let get = "GET http://a.example:8080/p?q HTTP/1.1\r\nHost: a.example:8080\r\n\
                   Proxy-Connection: keep-alive\r\nAccept: */*\r\n\r\n";
        let sent = "GET /p?q HTTP/1.1\r\nconnection: close\r\nHost: a.example:8080\r\n\
                    Accept: */*\r\n\r\n";
        for (head, expected) in [
            (get, Some(("http://a.example:8080/p?q", Some(sent)))),
            (
                "CONNECT a.example:443 HTTP/1.1\r\n\r\n",
                Some(("https://a.example/", None)),
            ),
            (
                "CONNECT [::1]:22 HTTP/1.1\r\n\r\n",
                Some(("https://[::1]:22/", None)),
            ),
            ("CONNECT a.example:443/x HTTP/1.1\r\n\r\n", None),
            ("GET /path HTTP/1.1\r\n\r\n", None),
            ("GET file:///etc/passwd HTTP/1.1\r\n\r\n", None),
            ("GET ftp://a.example/ HTTP/1.1\r\n\r\n", None),
            ("\r\n\r\n", None),
        ] {
            let expected = expected.map(|(url, head)| (url.to_owned(), head.map(str::to_owned)));
            assert_eq!(of(head), expected, "{head}");
        }
    }
}
