//! The web of the tests: names, addresses and servers that are all on loopback. What is dialled is
//! recorded before it is reached, so that a guard that fails is seen, and nothing leaves the
//! machine.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use kit::web::{WebAnswer, WebServer};
use parking_lot::Mutex;
use tokio::net::TcpStream;

use super::client::{WebClient, WebError};
use super::dialler::{Connection, DialFuture, Dialler, WebDialler};
use super::fetch::native::NativeFetcher;
use super::fetch::{FetchError, FetchLimits, FetchedPage, Fetcher, page_url};

mod reading;

/// The public address of the servers.
const SERVER: &str = "93.184.215.14";

/// The answer of a server that says nothing and keeps the connection.
const SILENT: &str = "connection: keep-alive";

/// A network with one server.
struct FixtureNet {
    /// The addresses of names. Each look-up takes the next list, and the last one stays.
    names: Mutex<HashMap<&'static str, Vec<Vec<IpAddr>>>>,
    /// The server, on loopback.
    server: SocketAddr,
    dialled: Mutex<Vec<SocketAddr>>,
}

impl FixtureNet {
    fn new(server: SocketAddr) -> Self {
        let public = || vec![SERVER.parse().unwrap()];
        let local = || vec!["127.0.0.1".parse().unwrap()];
        Self {
            names: Mutex::new(HashMap::from([
                ("example.com", vec![public()]),
                ("localhost", vec![local()]),
                ("local.example", vec![local()]),
                ("both.example", vec![[public(), local()].concat()]),
                ("rebinding.example", vec![public(), local()]),
            ])),
            server,
            dialled: Mutex::default(),
        }
    }

    /// What was dialled besides the public server.
    fn elsewhere(&self) -> Vec<SocketAddr> {
        let public: IpAddr = SERVER.parse().unwrap();
        let dialled = self.dialled.lock();
        let elsewhere = dialled.iter().filter(|address| address.ip() != public);
        elsewhere.copied().collect()
    }
}

/// Trusts no server: the tests speak HTTP.
fn tls() -> Arc<rustls::ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    Arc::new(tls)
}

impl Dialler for FixtureNet {
    fn resolve<'d>(&'d self, name: &'d str) -> DialFuture<'d, Vec<IpAddr>> {
        let mut names = self.names.lock();
        let found = names.get_mut(name.trim_end_matches('.')).map(|lists| {
            if lists.len() > 1 {
                lists.remove(0)
            } else {
                lists[0].clone()
            }
        });
        Box::pin(async move { found.ok_or_else(|| io::Error::other("no such name")) })
    }

    fn connect(&self, address: SocketAddr) -> DialFuture<'_, Box<dyn Connection>> {
        self.dialled.lock().push(address);
        let server = self.server;
        Box::pin(async move {
            let stream = TcpStream::connect(server).await?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })
    }
}

/// Answers each path with the bytes of the table. Without them it says nothing.
async fn serve(answers: &'static [(&'static str, &'static str)]) -> WebServer {
    let server = WebServer::start(move |request| {
        let answer = answers.iter().find(|(path, _)| *path == request.path);
        let answer = answer.map_or("HTTP/1.1 404 Not Found\r\n\r\n", |(_, answer)| *answer);
        match answer {
            SILENT => WebAnswer::raw("").then_silence(),
            _ if answer.contains("connection: keep-alive") => WebAnswer::raw(answer).then_silence(),
            _ => WebAnswer::raw(answer),
        }
    });
    server.await.unwrap()
}

struct FixtureWeb {
    net: Arc<FixtureNet>,
    fetcher: NativeFetcher,
    _server: WebServer,
}

impl FixtureWeb {
    async fn start(answers: &'static [(&'static str, &'static str)]) -> Self {
        let server = serve(answers).await;
        let net = Arc::new(FixtureNet::new(server.address()));
        let dialler = WebDialler::public(Arc::clone(&net) as Arc<dyn Dialler>);
        let client = WebClient::new(dialler, tls());
        Self {
            fetcher: NativeFetcher::new(client, FetchLimits::default()),
            net,
            _server: server,
        }
    }

    async fn get(&self, url: &str) -> Result<FetchedPage, FetchError> {
        self.fetcher.fetch(&page_url(url)?).await
    }
}

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-type: Text/HTML; charset=utf-8\r\n\r\n<p>hello";

#[tokio::test]
async fn a_page_is_fetched_through_redirects() {
    let web = FixtureWeb::start(&[
        (
            "/",
            "HTTP/1.1 301 Moved\r\nlocation: next?q=1#there\r\n\r\n",
        ),
        (
            "/next?q=1",
            "HTTP/1.1 307 Moved\r\nlocation: //example.com:8080/end\r\n\r\n",
        ),
        ("/end", HELLO),
    ])
    .await;
    let page = web.get("http://example.com/#top").await.unwrap();
    assert_eq!(page.url.as_str(), "http://example.com:8080/end");
    assert_eq!(page.content_type, "text/html; charset=utf-8");
    assert_eq!(page.body, b"<p>hello");
    assert_eq!(web.net.elsewhere(), []);
}

/// Promise: A page of this machine, of a private network or of the metadata of a cloud is not
/// connected to, in no spelling of its address, behind no redirect, and by no name whose address
/// changes.
#[tokio::test]
async fn no_spelling_of_a_forbidden_address_is_reached() {
    let web = FixtureWeb::start(&[
        ("/", HELLO),
        (
            "/to-loopback",
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/\r\n\r\n",
        ),
        (
            "/to-number",
            "HTTP/1.1 302 Found\r\nlocation: //0x7f000001/\r\n\r\n",
        ),
        (
            "/to-metadata",
            "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/latest\r\n\r\n",
        ),
        (
            "/to-name",
            "HTTP/1.1 302 Found\r\nlocation: http://local.example/\r\n\r\n",
        ),
        (
            "/to-file",
            "HTTP/1.1 302 Found\r\nlocation: file:///etc/passwd\r\n\r\n",
        ),
        (
            "/to-port",
            "HTTP/1.1 302 Found\r\nlocation: http://example.com:6379/\r\n\r\n",
        ),
        (
            "/to-itself",
            "HTTP/1.1 302 Found\r\nlocation: http://rebinding.example/\r\n\r\n",
        ),
    ])
    .await;
    for url in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://127.0.1/",
        "http://0177.0.0.1/",
        "http://0177.1/",
        "http://0x7f.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://017700000001/",
        "http://127.255.255.254/",
        "http://①②⑦.⓪.⓪.①/",
        "http://127。0。0。1/",
        "http://127%2e0%2e0%2e1/",
        "http://%31%32%37.0.0.1/",
        "http://127.0.0.1./",
        "http://localhost/",
        "http://LOCALHOST/",
        "http://localhost./",
        "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
        "http://localhost:8080/",
        "http://local.example/",
        "http://both.example/",
        "http://0.0.0.0/",
        "http://0/",
        "http://10.0.0.1/",
        "http://012.0.0.1/",
        "http://167772161/",
        "http://172.16.0.1/",
        "http://192.168.0.1/",
        "http://192.168.257/",
        "http://3232235521/",
        "http://169.254.169.254/",
        "http://169.254.43518/",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://0251.0376.0251.0376/",
        "http://169.254.170.2/",
        "http://100.100.100.200/",
        "http://192.0.0.192/",
        "http://168.63.129.16/",
        "http://198.18.0.1/",
        "http://224.0.0.1/",
        "http://240.0.0.1/",
        "http://255.255.255.255/",
        "http://[::]/",
        "http://[::1]/",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://[0000::0001]/",
        "http://[::127.0.0.1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[0:0:0:0:0:ffff:127.0.0.1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[::ffff:0:127.0.0.1]/",
        "http://[64:ff9b::127.0.0.1]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[64:ff9b:1::1]/",
        "http://[2002:7f00:1::]/",
        "http://[2002:a9fe:a9fe::1]/",
        "http://[2001:0:7f00:1::]/",
        "http://[2001:db8::1]/",
        "http://[fc00::1]/",
        "http://[fd00:ec2::254]/",
        "http://[fe80::1]/",
        "http://[fe80::1%25eth0]/",
        "http://[fec0::1]/",
        "http://[ff02::1]/",
        "http://[5f00::1]/",
        "http://user@127.0.0.1/",
        "http://example.com@127.0.0.1/",
        "http://127.0.0.1\\@example.com/",
        "http://127.0.0.1#@example.com/",
        "http:127.0.0.1/",
        "http:\\\\127.0.0.1\\",
        "http:///127.0.0.1/",
        "ht\ttp://127.0.\n0.1/",
        "https://127.0.0.1/",
        "http://127.0.0.1:22/",
        "http://example.com:25/",
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "gopher://127.0.0.1:6379/_INFO",
        "data:text/html,x",
        "unix:///var/run/docker.sock",
        "http://example.com/to-loopback",
        "http://example.com/to-number",
        "http://example.com/to-metadata",
        "http://example.com/to-name",
        "http://example.com/to-file",
        "http://example.com/to-port",
    ] {
        let fetched = web.get(url).await;
        assert_eq!(web.net.elsewhere(), [], "{url}");
        assert!(
            matches!(
                fetched,
                Err(FetchError::BadUrl(_) | FetchError::NoAnswer(WebError::NotPublic(_)))
            ),
            "{url}: {fetched:?}"
        );
    }
    // A name whose address changes between two requests.
    assert!(web.get("http://rebinding.example/").await.is_ok());
    let changed = web.get("http://rebinding.example/").await;
    assert!(
        matches!(changed, Err(FetchError::NoAnswer(WebError::NotPublic(_)))),
        "{changed:?}"
    );
    assert_eq!(web.net.elsewhere(), []);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_costs_a_limited_time() {
    let web = FixtureWeb::start(&[
        ("/silent", SILENT),
        (
            "/slow",
            "HTTP/1.1 200 OK\r\nconnection: keep-alive\r\ncontent-length: 9\r\n\r\nab",
        ),
    ])
    .await;
    let limits = FetchLimits::default();
    for (url, expected) in [
        ("http://example.com/silent", limits.head),
        ("http://example.com/slow", limits.total),
    ] {
        let fetched = web.get(url).await.unwrap_err();
        assert!(
            matches!(fetched, FetchError::NoAnswer(WebError::Timeout(time)) if time == expected),
            "{url}: {fetched}"
        );
    }
}
