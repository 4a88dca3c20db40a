//! Pages that turns read from a server of the test.
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adapters::plan::Retention;
use http_body_util::BodyExt as _;
use kit::player::PlayerWire;
use kit::web::{WebAnswer, WebServer};
use respondent::artifacts::Artifacts;
use respondent::tools::web::page::PageReader as _;
use respondent::tools::web::reader::ReaderSettings;
use respondent::tools::web_search::WebSearchTool;
use serde_json::json;
use tokio::time::timeout;
use tracing_subscriber::fmt::MakeWriter;

use super::web::{TestWeb, call, question, reader, request, without_hosted_tools};
use crate::faults::{answer, player};
use crate::rounds::server::{RoundClient, RoundServer};

fn tool_reading(server: &WebServer) -> Arc<WebSearchTool> {
    let reader = reader(server.address(), ReaderSettings::default());
    let artifacts = Artifacts::without_store(Retention::Nothing, BTreeSet::new());
    TestWeb::new().tool_reading(Arc::new(reader), artifacts)
}

/// Promise: A client that leaves ends the calls of its turn at once: the connection to the server
/// of a page that it waits for is closed.
#[kit::test(on_each_wire)]
async fn a_client_that_leaves_closes_the_connection_to_a_page(wire: PlayerWire) {
    let server = WebServer::start(|_| WebAnswer::raw("").then_silence());
    let server = server.await.unwrap();
    let player = player(wire).await;
    let page = json!({"url": "http://slow.example/"});
    player.push(answer(json!([call("c1", "open_page", &page)])));
    let tool = tool_reading(&server);
    let rounds = RoundServer::with_tools(&[&player], tool, without_hosted_tools(wire));
    let asked = request(&question());
    let mut body = rounds
        .open(&asked, RoundClient::Streaming)
        .await
        .into_body();
    loop {
        tokio::select! {
            frame = body.frame() => drop(frame.unwrap().unwrap()),
            () = server.wait_for_connections(1) => break,
        }
    }
    drop(body);
    // The reader would wait for 40 seconds.
    let closed = timeout(Duration::from_secs(20), server.wait_for_connections(0));
    closed.await.expect("the connection is open");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Promise: At the level `debug` the log has the stages of a page in their order, each with its
/// time, and of its address the origin alone.
#[test]
fn the_stages_of_a_page_are_logged() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    tracing::subscriber::with_default(subscriber, || {
        runtime.block_on(async {
            let server = WebServer::start(|request| {
                if request.path == "/gone?canary" {
                    return WebAnswer::new(404, "text/html", "");
                }
                let text = "The words of the page are a secret of the canary. ".repeat(20);
                WebAnswer::new(200, "text/html", format!("<p>{text}</p>"))
            });
            let server = server.await.unwrap();
            let reader = reader(server.address(), ReaderSettings::default());
            reader.read("http://example.com/page?canary").await.unwrap();
            reader
                .read("http://example.com/gone?canary")
                .await
                .unwrap_err();
        });
    });
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines = log.lines().filter_map(|line| line.split_once("stage "));
    let stages = lines.map(|(_, line)| {
        let is_timed = line.ends_with(" ms") && line.contains(" of http://example.com ");
        assert!(is_timed || line == "open_page of a page begins", "{line}");
        let failed = if line.contains(" failed after ") {
            "!"
        } else {
            ""
        };
        format!("{}{failed}", line.split_once(" of ").unwrap().0)
    });
    let stages: Vec<String> = stages.collect();
    let (native, failed) = ("fetch by native", "fetch by native!");
    let expected = [
        "open_page",
        "policy",
        native,
        "extract",
        "open_page",
        "policy",
        failed,
    ];
    assert_eq!(stages, expected, "{log}");
    assert!(!log.contains("canary"), "{log}");
}
