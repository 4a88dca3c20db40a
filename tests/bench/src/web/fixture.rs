//! A small web, an MCP server whose tool has effects, and a model that asks for both.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use kit::{
    mcp::{McpAnswer, McpPlayer, tool},
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
/// The tool with effects, which a background response calls in both of its rounds.
const EFFECT: &str = "effects__change";

/// How a turn is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Its client waits for it. It searches and reads.
    Waiting,
    /// It runs in the background, and its client reads its events. It searches, reads, and calls a
    /// tool with effects.
    Background,
}

/// A search engine, pages, an MCP server, and a model that searches, reads and calls.
pub(super) struct FixtureWeb {
    engine: WebServer,
    pages: WebServer,
    effects: McpPlayer,
    model: Player,
    /// The next question, so that none is answered from memory.
    next: AtomicU32,
}

impl FixtureWeb {
    /// Starts all of them. Every page is this one.
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
            effects: McpPlayer::start(vec![tool("change", false)], |_, _| {
                McpAnswer::text("changed")
            })
            .await?,
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
             [search]\norder = [\"searxng\"]\n[search.searxng]\nbase_url = \"{}\"\n\
             [tools.mcp.servers.effects]\nurl = \"{}\"\nrequire_approval = \"request\"\n",
            self.model.base_url(),
            self.engine.url(""),
            self.effects.url()
        )
    }

    /// A turn on a connection of its own. Returns its time.
    pub(super) async fn turn(&self, asked: Asked, target: Target) -> anyhow::Result<Duration> {
        let question = self.next.fetch_add(1, Ordering::Relaxed);
        let is_background = asked == Asked::Background;
        let mut tools = vec![json!({"type": "web_search"})];
        let effects =
            json!({"type": "mcp", "server_label": "effects", "require_approval": "never"});
        tools.extend(is_background.then_some(effects));
        let request = target.post(&json!({
            "model": "web/searches", "store": is_background, "stream": is_background,
            "background": is_background, "tools": tools, "input": format!("question {question}")
        }));
        let start = Instant::now();
        let mut conn = Conn::open(target.addr).await?;
        let reply = conn.send(&request).await?;
        let body = conn.read_to_end(reply).await?;
        let response = if is_background {
            final_response(&body)?
        } else {
            serde_json::from_slice(&body)?
        };
        let count = |kind: &str| {
            let calls = array(&response, "output").iter();
            let calls = calls.filter(|item| item["type"] == kind && item["status"] == "completed");
            calls.count()
        };
        let (searches, effects) = (count("web_search_call"), count("mcp_call"));
        let expected = (1 + PAGES_A_TURN, 2 * usize::from(is_background));
        ensure!(
            (searches, effects) == expected,
            "{response} searched and read {searches} times, and called {effects} times"
        );
        Ok(start.elapsed())
    }
}

/// The response with which a stream ends.
fn final_response(events: &[u8]) -> anyhow::Result<Value> {
    let text = str::from_utf8(events)?;
    let mut lines = text.lines().rev();
    let last = lines.find_map(|line| line.strip_prefix("data: {"));
    let last: Value = serde_json::from_str(&format!("{{{}", last.context("no event came")?))?;
    last.get("response")
        .cloned()
        .context("the stream has no end")
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

/// What the model answers: a search, then calls that open its pages, then a text. With a search and
/// with the pages it calls a tool with effects, if it is offered one.
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
    let is_offered = request.json.to_string().contains(EFFECT);
    let change = |id: usize| {
        let id = format!("e{question}-{id}");
        let arguments = json!({"q": id}).to_string();
        is_offered.then(|| json!({"call": {"id": id, "name": EFFECT, "arguments": arguments}}))
    };
    let first_round = 1 + usize::from(is_offered);
    let call = |id: usize, name: &str, arguments: &Value| json!({"call": {"id": format!("c{id}"), "name": name, "arguments": arguments.to_string()}});
    let steps: Vec<Value> = if results == 0 {
        let search = json!({"query": format!("tea-{question}")});
        let search = call(0, "web_search", &search);
        [search].into_iter().chain(change(0)).collect()
    } else if results == first_round {
        let pages = (0..PAGES_A_TURN).map(|page| {
            let url = format!("http://{PAGES}/tea-{question}/{page}");
            call(page + 1, "open_page", &json!({ "url": url }))
        });
        pages.chain(change(1)).collect()
    } else {
        vec![json!({"text": "Green tea needs two minutes."})]
    };
    let steps: Vec<_> = steps
        .into_iter()
        .filter_map(|step| serde_json::from_value(step).ok())
        .collect();
    ScriptedAnswer::steps(steps)
}
