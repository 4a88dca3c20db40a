//! Pages are read from servers that are slow, broken or hostile, with a browser elsewhere or
//! without.

#[cfg(feature = "chromium")]
mod chromium;

use std::io::Write as _;
use std::sync::LazyLock;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use kit::web::WebServerRequest;

use super::*;
use crate::net::blocking::low_priority_work_ended;
use crate::net::memory::{MemoryKind, ProcessMemory};
use crate::secrets::Secret;
use crate::tools::web::fetch::browserless::BrowserlessSettings;
use crate::tools::web::page::{FetchStrategy, Page, PageError, PageReader};
use crate::tools::web::reader::{ReaderSettings, WebReader};

/// The address of the browser elsewhere: in the network of the operator.
const BROWSER: &str = "10.0.0.7";
/// A server does not end its answer.
const ENDLESS: &str = "x-test: endless";

/// Answers a request, such as `get /path`, with the how-manieth it is of its kind.
type Answer = fn(&str, usize) -> Vec<u8>;

/// A server that answers as it is told.
async fn server(answer: Answer) -> WebServer {
    let server = WebServer::start(move |request| {
        let answer = answer(&line(request), request.earlier);
        let text = String::from_utf8_lossy(&answer).into_owned();
        match WebAnswer::raw(answer) {
            _ if text == SILENT => WebAnswer::raw("").then_silence(),
            answer if text.contains(ENDLESS) => answer.without_end(),
            answer => answer,
        }
    });
    server.await.unwrap()
}

/// Method and path in lower case.
fn line(request: &WebServerRequest) -> String {
    format!("{} {}", request.method, request.path).to_lowercase()
}

struct ReadingWeb {
    net: Arc<FixtureNet>,
    server: WebServer,
    reader: Arc<WebReader>,
    memory: ProcessMemory,
}

impl ReadingWeb {
    async fn start(answer: Answer, settings: ReaderSettings) -> Self {
        Self::with_memory(answer, settings, 64 << 20).await
    }

    async fn with_memory(answer: Answer, settings: ReaderSettings, limit: usize) -> Self {
        let server = server(answer).await;
        let net = Arc::new(FixtureNet::new(server.address()));
        let dialler = Arc::clone(&net) as Arc<dyn Dialler>;
        let memory = ProcessMemory::new(limit);
        let reader = WebReader::new(&dialler, &tls(), &memory, settings);
        Self {
            net,
            server,
            reader: Arc::new(reader),
            memory,
        }
    }

    async fn read(&self, path: &str) -> Result<Arc<Page>, PageError> {
        self.reader.read(&format!("http://example.com{path}")).await
    }

    /// How often this was asked for, such as `get /path`.
    fn asked(&self, what: &str) -> usize {
        let requests = self.server.requests();
        requests.iter().filter(|it| line(it) == what).count()
    }

    /// What Browserless was asked for, such as `content`.
    fn browsed(&self) -> Vec<String> {
        let requests = self.server.requests();
        let posts = requests.iter().filter(|request| request.method == "POST");
        let paths = posts.filter_map(|request| request.path.split('?').next()?.strip_prefix('/'));
        paths.map(str::to_owned).collect()
    }
}

fn browser() -> ReaderSettings {
    ReaderSettings {
        browserless: Some(BrowserlessSettings {
            base_url: format!("http://{BROWSER}:3000").parse().unwrap(),
            token: Secret::new("canary-token").unwrap(),
            wait_for_selector: None,
            wait_for_timeout: None,
        }),
        ..ReaderSettings::default()
    }
}

fn html(head: &str, chars: usize) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n{head}\r\n");
    format!("{head}<title>T</title><p>{}</p>", "x".repeat(chars)).into_bytes()
}

fn status(status: u16) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").into_bytes()
}

/// 50 MB of spaces in 50 KB.
static BOMB: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-encoding: gzip\r\n\r\n";
    let mut coded = GzEncoder::new(head.as_bytes().to_vec(), Compression::fast());
    coded.write_all(&vec![b' '; 50 << 20]).unwrap();
    coded.finish().unwrap()
});

/// What the servers of the pages answer, by the path.
fn native(line: &str) -> Vec<u8> {
    match line {
        "get /good" => html("", 100),
        "get /short" => html("", 99),
        "get /broken" => b"nonsense\r\n\r\n".to_vec(),
        "get /silent" => SILENT.into(),
        "get /pdf" => b"HTTP/1.1 200 OK\r\ncontent-type: application/pdf\r\n\r\n%PDF".to_vec(),
        "get /endless" => html(&format!("{ENDLESS}\r\n"), 100),
        "get /nested" => [html("", 100), b"<div>".repeat(400)].concat(),
        "get /metadata" => {
            let to = "http://169.254.169.254/latest/meta-data";
            format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\n\r\n").into_bytes()
        }
        "get /round" => b"HTTP/1.1 302 Found\r\nlocation: /round\r\n\r\n".to_vec(),
        "get /bomb" => BOMB.clone(),
        line => {
            let code = line
                .split('/')
                .next_back()
                .and_then(|code| code.parse().ok());
            status(code.unwrap_or(404))
        }
    }
}

/// Promise: A page that its server refuses, delivers too late or not at all, or that has hardly any
/// text, is asked for from Browserless, if there is a token; for no other reason.
#[tokio::test]
async fn a_browser_is_asked_for_what_a_server_refuses() {
    let answer: Answer = |line, _| match line {
        line if line.starts_with("post /content?") => html("x-response-code: 200\r\n", 120),
        line => native(line),
    };
    LazyLock::force(&BOMB);
    let (with, without) = (
        ReadingWeb::start(answer, browser()).await,
        ReadingWeb::start(answer, ReaderSettings::default()).await,
    );
    for (path, code, is_browsed) in [
        ("/status/400", "HTTP_CLIENT_ERROR", true),
        ("/status/403", "HTTP_CLIENT_ERROR", true),
        ("/status/404", "HTTP_CLIENT_ERROR", true),
        ("/status/410", "HTTP_CLIENT_ERROR", true),
        ("/silent", "TIMEOUT", true),
        ("/broken", "FETCH_FAILED", true),
        ("/round", "FETCH_FAILED", true),
        ("/short", "CONTENT_TOO_SHORT", true),
        ("/status/500", "HTTP_SERVER_ERROR", false),
        ("/status/502", "HTTP_SERVER_ERROR", false),
        ("/pdf", "NON_HTML", false),
        ("/endless", "TOO_LARGE", false),
        ("/bomb", "TOO_LARGE", false),
        ("/nested", "HOSTILE", false),
        ("/metadata", "BAD_URL", false),
    ] {
        let failed = without.read(path).await.unwrap_err();
        assert_eq!(failed.code().name(), code, "{path}: {failed}");
        assert_eq!(without.browsed(), [""; 0], "{path}");
        let before = with.browsed().len();
        let read = with.read(path).await;
        let browsed = with.browsed().split_off(before);
        if is_browsed {
            assert_eq!(read.unwrap().fetched_by, FetchStrategy::BrowserlessContent);
            assert_eq!(browsed, ["content"], "{path}");
        } else {
            assert_eq!(read.unwrap_err(), failed, "{path}");
            assert_eq!(browsed, [""; 0], "{path}");
        }
    }
    let page = with.read("/good").await.unwrap();
    assert_eq!(page.fetched_by, FetchStrategy::Native);
    let browser: IpAddr = BROWSER.parse().unwrap();
    let elsewhere = with.net.elsewhere();
    assert!(elsewhere.iter().all(|address| address.ip() == browser));
    assert_eq!(without.net.elsewhere(), []);
    assert_eq!(with.memory.used_for(MemoryKind::Requests), 0);
}

/// Promise: The way around what keeps browsers of robots out is taken only where the page has
/// answered the browser with 403. If no browser gets the page, the answer of its server stands.
#[tokio::test]
async fn unblock_is_asked_where_the_page_has_answered_403() {
    let answer: Answer = |line, nth| {
        let path = line.split('?').next().unwrap();
        match (path, nth) {
            ("post /content", 1) => html("x-response-code: 404\r\n", 120),
            ("post /content", 2) => status(403),
            ("post /content", 3) => html("x-response-code: 200\r\n", 20),
            ("post /content", 4) => html("x-response-url: http://192.168.0.9/\r\n", 120),
            ("post /content", _) => html("x-response-code: 403\r\n", 120),
            ("post /unblock", 0) => {
                let content = format!("<p>é{}</p>", "y".repeat(100));
                let body = serde_json::json!({ "content": content, "cookies": [] });
                format!("HTTP/1.1 200 OK\r\n\r\n{body}").into_bytes()
            }
            ("post /unblock", _) => b"HTTP/1.1 200 OK\r\n\r\n{\"cookies\":[]}".to_vec(),
            _ => status(401),
        }
    };
    let web = ReadingWeb::start(answer, browser()).await;
    let page = web.read("/").await.unwrap();
    assert_eq!(page.fetched_by, FetchStrategy::BrowserlessUnblock);
    assert!(page.markdown.starts_with("éyyy"), "{}", page.markdown);
    assert_eq!(web.browsed(), ["content", "unblock"]);
    for _ in 1..=4 {
        let failed = web.read("/").await.unwrap_err();
        assert_eq!(failed.to_string(), "the server answered 401 Unauthorized");
    }
    assert_eq!(web.browsed()[2..], ["content"; 4]);
    assert!(web.read("/").await.is_err());
    assert_eq!(web.browsed()[6..], ["content", "unblock"]);
}

/// Promise: A page is the same text whichever way it was fetched.
#[tokio::test]
async fn a_page_is_the_same_however_it_is_fetched() {
    let answer: Answer = |line, _| {
        let page = || {
            let text = "Words of a page. ".repeat(20);
            let body = format!(
                "<title>T</title><h1>Head</h1><p>{text}</p><ul><li>one<li>two</ul>\
                 <table><tr><td>a<td>b</table><p><a href=\"/x\">a link</a></p>"
            );
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n";
            format!("{head}{body}").into_bytes()
        };
        match line {
            "get /status/404" => status(404),
            "get /page" => page(),
            line if line.starts_with("post /content?") => page(),
            line => native(line),
        }
    };
    let web = ReadingWeb::start(answer, browser()).await;
    let direct = web.read("/page").await.unwrap();
    let browsed = web.read("/status/404").await.unwrap();
    assert_eq!(direct.fetched_by, FetchStrategy::Native);
    assert_eq!(browsed.fetched_by, FetchStrategy::BrowserlessContent);
    assert!(direct.markdown.contains("Words of a page."));
    assert_eq!(direct.markdown, browsed.markdown);
}

/// Promise: Browserless is sent the address, waits for the network, 15 seconds at most, and for
/// what the operator has set. Its token is in no message.
#[tokio::test]
async fn browserless_is_told_how_long_to_wait() {
    let answer: Answer = |line, _| match line {
        line if line.starts_with("post /base/content?") => html("", 120),
        line => native(line),
    };
    let mut settings = browser();
    let browserless = settings.browserless.as_mut().unwrap();
    browserless.base_url.set_path("/base/");
    browserless.wait_for_selector = Some("main".to_owned());
    browserless.wait_for_timeout = Some(Duration::from_millis(700));
    assert!(!format!("{settings:?}").contains("canary"));
    let web = ReadingWeb::start(answer, settings).await;
    web.read("/status/404").await.unwrap();
    let asked = web.server.requests().remove(1);
    assert_eq!(line(&asked), "post /base/content?token=canary-token");
    let body: serde_json::Value = serde_json::from_str(&asked.body).unwrap();
    let expected = serde_json::json!({
        "url": "http://example.com/status/404",
        "gotoOptions": { "waitUntil": "networkidle2", "timeout": 15_000 },
        "waitForSelector": { "selector": "main", "timeout": 15_000 },
        "waitForTimeout": 700,
    });
    assert_eq!(body, expected);
    let default = crate::tools::web::fetch::browserless::BASE_URL;
    assert_eq!(default, "https://production-sfo.browserless.io");
}

/// Promise: A browser that does not answer is waited for no longer than 20 seconds.
#[tokio::test(start_paused = true)]
async fn a_browser_that_does_not_answer_costs_a_limited_time() {
    let answer: Answer = |line, _| match line {
        line if line.starts_with("post /content?") => SILENT.into(),
        line => native(line),
    };
    let web = ReadingWeb::start(answer, browser()).await;
    let began = tokio::time::Instant::now();
    web.read("/status/404").await.unwrap_err();
    let seconds = began.elapsed().as_secs();
    assert!((20..=24).contains(&seconds), "{seconds}");
    assert_eq!(web.browsed(), ["content"]);
}

/// Promise: No address is handed to the browser that the proxy itself may not open.
#[tokio::test]
async fn a_browser_gets_no_forbidden_address() {
    let web = ReadingWeb::start(|line, _| native(line), browser()).await;
    for url in [
        "http://127.0.0.1/status/404",
        "http://local.example/status/404",
        "http://both.example/",
        "http://169.254.169.254/",
        "http://[::ffff:10.0.0.7]/",
        "http://unknown.example/",
        "http://example.com:22/",
        "http://example.com/metadata",
    ] {
        assert!(web.reader.read(url).await.is_err(), "{url}");
    }
    assert_eq!(web.browsed(), [""; 0]);
    // Its address changes between the request of the proxy and that of the browser.
    let failed = web.reader.read("http://rebinding.example/status/404").await;
    assert!(failed.is_err());
    assert_eq!(web.browsed(), [""; 0]);
    assert_eq!(web.net.elsewhere(), []);
}

/// Promise: A server that has no time is asked up to three times more, if it does not ask for more
/// patience than there is; one that is in trouble is asked once more.
#[tokio::test]
async fn a_server_that_has_no_time_is_asked_again() {
    let answer: Answer = |line, nth| match (line, nth) {
        ("get /twice", 0) => status(429),
        ("get /twice", 1) => status(408),
        ("get /trouble", 0) => status(502),
        // The connection ends without an answer.
        ("get /dropped", 0) => Vec::new(),
        ("get /twice" | "get /trouble" | "get /dropped", _) => html("", 100),
        ("get /later", _) => b"HTTP/1.1 429 X\r\nretry-after: 3600\r\n\r\n".to_vec(),
        ("get /never", _) => format!("HTTP/1.1 503 X\r\nretry-after: {}\r\n\r\n", u64::MAX).into(),
        (line, _) => native(line),
    };
    let web = ReadingWeb::start(answer, ReaderSettings::default()).await;
    for (path, is_read, times) in [
        ("/twice", true, 3),
        ("/status/503", false, 4),
        ("/later", false, 1),
        ("/never", false, 1),
        ("/trouble", true, 2),
        ("/dropped", true, 2),
        ("/status/500", false, 2),
        ("/status/404", false, 1),
    ] {
        assert_eq!(web.read(path).await.is_ok(), is_read, "{path}");
        assert_eq!(web.asked(&format!("get {path}")), times, "{path}");
    }
}

/// Promise: Plain text, Markdown and JSON are read where the operator wants it; otherwise the
/// failure names the key of the configuration. What is no text is never read.
#[tokio::test]
async fn text_is_read_where_the_operator_wants_it() {
    let answer: Answer = |line, _| {
        let (content_type, body): (_, &[u8]) = match line {
            "get /plain" => ("Text/Plain; charset=iso-8859-1", b"caf\xe9"),
            "get /json" => ("application/json", b"{\"a\": 1}"),
            "get /markdown" => ("text/markdown", b"# Title"),
            "get /wide" => ("text/plain", b"\xff\xfeh\0i\0"),
            "get /binary" => ("text/plain", b"\x7fELF\0\x01"),
            "get /xhtml" => ("application/xhtml+xml", &[b'x'; 100]),
            "get /pdf" => ("application/pdf", b"%PDF"),
            "get /image" => ("image/png", b"PNG"),
            "get /none" => ("", b"something"),
            _ => ("text/plain", b" "),
        };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n\r\n");
        [head.as_bytes(), body].concat()
    };
    let with = ReaderSettings {
        reads_text: true,
        ..ReaderSettings::default()
    };
    let with = ReadingWeb::start(answer, with).await;
    let without = ReadingWeb::start(answer, ReaderSettings::default()).await;
    let code = |read: Result<Arc<Page>, PageError>| read.map_err(|error| error.code().name());
    for (path, expected) in [
        ("/plain", Ok("café")),
        ("/json", Ok("{\n  \"a\": 1\n}")),
        ("/wide", Ok("hi")),
        ("/binary", Err("NON_HTML")),
        ("/markdown", Ok("# Title")),
        ("/empty", Err("CONTENT_TOO_SHORT")),
        ("/image", Err("NON_HTML")),
        ("/none", Err("NON_HTML")),
    ] {
        let read = code(with.read(path).await);
        let read = read.as_ref().map(|page| page.markdown.as_str());
        assert_eq!(read, expected.as_ref().map(|text| *text), "{path}");
        let failed = code(without.read(path).await).unwrap_err();
        assert_eq!(failed, "NON_HTML", "{path}");
    }
    assert!(without.read("/xhtml").await.is_ok());
    assert_eq!(with.read("/plain").await.unwrap().title, "plain");
    for (path, why) in [
        (
            "/plain",
            "the address leads to 'text/plain', which is read only with allow_plain_text = true in \
             [search] of the configuration",
        ),
        (
            "/pdf",
            "the address leads to 'application/pdf', which is read only with allow_pdf = true in \
             [search] of the configuration",
        ),
    ] {
        assert_eq!(without.read(path).await.unwrap_err().to_string(), why);
    }
    #[cfg(not(feature = "pdf"))]
    {
        let settings = ReaderSettings {
            pdf_program: Some("/nonexistent".into()),
            ..ReaderSettings::default()
        };
        let web = ReadingWeb::start(answer, settings).await;
        assert_eq!(web.read("/pdf").await.unwrap_err(), PageError::NoPdf);
    }
}

/// Promise: The rules of servers for robots are kept where the operator wants it, also on
/// redirects, and asked for once an hour.
#[tokio::test]
async fn rules_for_robots_are_kept_where_the_operator_wants_it() {
    let answer: Answer = |line, _| match line {
        "get /robots.txt" => {
            let rules = "user-agent: *\ndisallow: /\n\nuser-agent: Respondent\ndisallow: /private";
            format!("HTTP/1.1 200 OK\r\n\r\n{rules}").into_bytes()
        }
        "get /moved" => b"HTTP/1.1 302 Found\r\nlocation: /private/page\r\n\r\n".to_vec(),
        _ => html("", 100),
    };
    let kept = ReaderSettings {
        keeps_robot_rules: true,
        ..browser()
    };
    let kept = ReadingWeb::start(answer, kept).await;
    let ignored = ReadingWeb::start(answer, ReaderSettings::default()).await;
    for (path, expected) in [
        ("/", true),
        ("/private/page", false),
        ("/moved", false),
        ("/privately", false),
        ("/public", true),
    ] {
        let read = kept.read(path).await;
        assert_eq!(read.is_ok(), expected, "{path}: {read:?}");
        assert!(ignored.read(path).await.is_ok(), "{path}");
    }
    let files = |web: &ReadingWeb| web.asked("get /robots.txt");
    assert_eq!((files(&kept), files(&ignored)), (1, 0));
    assert_eq!(kept.browsed(), [""; 0]);
    // Several pages at once ask for them once.
    let keeps = ReaderSettings {
        keeps_robot_rules: true,
        ..ReaderSettings::default()
    };
    let at_once = ReadingWeb::start(answer, keeps).await;
    let paths: Vec<String> = (0..10).map(|number| format!("/{number}")).collect();
    let reads = paths.iter().map(|path| at_once.read(path));
    let read = futures_util::future::join_all(reads).await;
    assert!(read.iter().all(Result::is_ok));
    assert_eq!(files(&at_once), 1);
}

/// A server whose rules nobody can read allows nothing, and one that has none allows everything.
#[tokio::test]
async fn rules_for_robots_that_cannot_be_read_allow_nothing() {
    let keeps = || ReaderSettings {
        keeps_robot_rules: true,
        ..ReaderSettings::default()
    };
    let cases: [(Answer, bool); 4] = [
        (
            |line, _| {
                if line == "get /robots.txt" {
                    status(404)
                } else {
                    html("", 100)
                }
            },
            true,
        ),
        (
            |line, _| {
                if line == "get /robots.txt" {
                    status(500)
                } else {
                    html("", 100)
                }
            },
            false,
        ),
        (
            |line, _| match line {
                "get /robots.txt" => format!("HTTP/1.1 200 OK\r\n{ENDLESS}\r\n\r\n").into_bytes(),
                _ => html("", 100),
            },
            false,
        ),
        (
            |line, _| match line {
                "get /robots.txt" => {
                    let rules = "allow: /a*b$\n".repeat(2_000);
                    format!("HTTP/1.1 200 OK\r\n\r\nuser-agent: *\n{rules}").into_bytes()
                }
                _ => html("", 100),
            },
            false,
        ),
    ];
    for (number, (answer, expected)) in cases.into_iter().enumerate() {
        let web = ReadingWeb::start(answer, keeps()).await;
        assert_eq!(web.read("/").await.is_ok(), expected, "{number}");
    }
}

/// Promise: A page is read only if the budget of the process has room for it and for the work on
/// it, and counts in it as long as somebody has it.
#[tokio::test]
async fn a_page_without_memory_is_not_read() {
    let answer: Answer = |line, _| match line {
        "get /large" => html("content-length: 4000050\r\n", 4_000_020),
        "get /unannounced" => html("", 4_000_000),
        "get /parts" => [html("", 100), b"<br>".repeat(50_000)].concat(),
        _ => html("", 100),
    };
    let small = ReadingWeb::with_memory(answer, ReaderSettings::default(), 3 << 20).await;
    for path in ["/large", "/unannounced", "/parts"] {
        let read = small.read(path).await;
        assert_eq!(read.err(), Some(PageError::NoMemory), "{path}");
        assert_eq!(small.memory.used(), 0, "{path}");
    }
    assert!(small.read("/small").await.is_ok());
    let large = ReadingWeb::with_memory(answer, ReaderSettings::default(), 200 << 20).await;
    assert!(large.read("/parts").await.is_ok());
    assert_eq!(large.memory.used(), 0);
    let page = large.read("/unannounced").await.unwrap();
    let used = large.memory.used();
    assert!((3_900_000..4_200_000).contains(&used), "{used}");
    drop(page);
    assert_eq!(large.memory.used(), 0);
}

/// Promise: A page that nobody waits for any more costs neither a parser nor memory.
#[tokio::test(flavor = "multi_thread")]
async fn pages_that_nobody_waits_for_leave_nothing() {
    let answer: Answer = |_, _| [html("", 100), b"<p>word</p>".repeat(20_000)].concat();
    let web = ReadingWeb::with_memory(answer, ReaderSettings::default(), 1 << 30).await;
    let reads: Vec<_> = (0..40)
        .map(|number| {
            let reader = Arc::clone(&web.reader);
            tokio::spawn(async move { reader.read(&format!("http://example.com/{number}")).await })
        })
        .collect();
    while web.server.requests().len() < 20 {
        tokio::task::yield_now().await;
    }
    for read in &reads {
        read.abort();
    }
    for read in reads {
        let _ = read.await;
    }
    // The parsers that run now are the last ones.
    low_priority_work_ended().await;
    assert_eq!(web.memory.used(), 0);
}
