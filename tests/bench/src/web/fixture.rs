//! A small web, and a model that asks for it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use kit::{
    player::{Player, PlayerRequest, ScriptedAnswer},
    web::{WebAnswer, WebServer, WebServerRequest},
};
use serde_json::{Value, json};

use crate::{conn::Conn, request::Target};

/// The pages that a turn reads.
pub(super) const PAGES_A_TURN: usize = 5;
/// Where the pages are. Those of this machine are not read, so it is a public address, which a
/// network of its own gives to its loopback interface; `tests/bench/web.sh` makes one.
const PAGES: Ipv4Addr = Ipv4Addr::new(93, 184, 215, 14);

/// A search engine, pages, and a model that searches and reads.
pub(super) struct FixtureWeb {
    engine: WebServer,
    pages: WebServer,
    model: Player,
    /// The next question, so that none is answered from memory.
    next: AtomicU32,
}

impl FixtureWeb {
    /// Starts all three. Every page is this one.
    pub(super) async fn start(page: String) -> anyhow::Result<Self> {
        let address = SocketAddr::from((PAGES, 80));
        let pages = WebServer::start_at(address, move |_| {
            WebAnswer::new(200, "text/html; charset=utf-8", &page)
        });
        let pages = pages.await.with_context(|| {
            format!("pages cannot be served at {PAGES}; tests/bench/web.sh makes a network where they can")
        })?;
        Ok(Self {
            engine: WebServer::start(found).await?,
            pages,
            model: Player::serve(vec!["searches".to_owned()], Box::new(searches)).await?,
            next: AtomicU32::default(),
        })
    }

    /// How many pages were served.
    pub(super) fn served(&self) -> usize {
        self.pages.requests().len()
    }

    /// The tables of the configuration of a proxy.
    pub(super) fn config(&self) -> String {
        format!(
            "[providers.web]\nwire = \"chat\"\nbase_url = \"{}\"\nkey_required = false\ndiscover = \"off\"\n\
             [search]\norder = [\"searxng\"]\n[search.searxng]\nbase_url = \"{}\"\n",
            self.model.base_url(),
            self.engine.url("")
        )
    }

    /// A turn that searches and reads, on a connection of its own. Returns its time.
    pub(super) async fn turn(&self, target: Target) -> anyhow::Result<Duration> {
        let question = self.next.fetch_add(1, Ordering::Relaxed);
        let request = target.post(&json!({
            "model": "web/searches", "store": false, "stream": false,
            "tools": [{"type": "web_search"}], "input": format!("question {question}")
        }));
        let start = Instant::now();
        let mut conn = Conn::open(target.addr).await?;
        let reply = conn.send(&request).await?;
        let body = conn.read_to_end(reply).await?;
        let response: Value = serde_json::from_slice(&body)?;
        let items = array(&response, "output");
        let calls = items
            .iter()
            .filter(|item| item["type"] == "web_search_call");
        let whole = calls.filter(|item| item["status"] == "completed").count();
        ensure!(
            whole == 1 + PAGES_A_TURN,
            "{response} searched and read only {whole} times"
        );
        Ok(start.elapsed())
    }
}

/// The values of a list in an object; none if it is not there.
fn array<'v>(object: &'v Value, name: &str) -> &'v [Value] {
    let list = object.get(name).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// What the search engine finds: other pages for each question.
fn found(request: &WebServerRequest) -> WebAnswer {
    let query = request.path.split("q=").nth(1).unwrap_or_default();
    let query = query.split('&').next().unwrap_or_default();
    let results = (0..PAGES_A_TURN).map(|page| {
        json!({"url": format!("http://{PAGES}/{query}/{page}"), "title": "A long page", "content": "Tea."})
    });
    let found = json!({"results": results.collect::<Vec<_>>()});
    WebAnswer::new(200, "application/json", found.to_string())
}

/// What the model answers: a search, then calls that open its pages, then a text.
fn searches(request: &PlayerRequest) -> ScriptedAnswer {
    let messages = array(&request.json, "messages");
    let results = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .count();
    let question = messages.iter().find_map(|message| {
        let content = message["content"]
            .as_str()
            .filter(|_| message["role"] == "user")?;
        content.strip_prefix("question ")
    });
    let question = question.unwrap_or_default();
    let call = |id: usize, name: &str, arguments: &Value| json!({"call": {"id": format!("c{id}"), "name": name, "arguments": arguments.to_string()}});
    let steps: Vec<Value> = match results {
        0 => vec![call(
            0,
            "web_search",
            &json!({"query": format!("tea-{question}")}),
        )],
        1 => (0..PAGES_A_TURN)
            .map(|page| {
                let url = format!("http://{PAGES}/tea-{question}/{page}");
                call(page + 1, "open_page", &json!({ "url": url }))
            })
            .collect(),
        _ => vec![json!({"text": "Green tea needs two minutes."})],
    };
    let steps: Vec<_> = steps
        .into_iter()
        .filter_map(|step| serde_json::from_value(step).ok())
        .collect();
    ScriptedAnswer::steps(steps)
}
