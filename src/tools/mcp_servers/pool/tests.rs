//! How long connections, lists and failures are kept.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use kit::mcp::{McpAnswer, McpPlayer, tool};
use serde_json::json;
use tokio::time::{advance, pause, resume};
use url::Url;

use super::*;
use crate::tools::mcp_servers::target::McpReach;
use crate::tools::web::dialler::SystemDialler;

const MAX_AGE: Duration = Duration::from_mins(5);
const CALL_TIMEOUT: Duration = Duration::from_secs(45);

fn pool() -> McpPool {
    McpPool::new(Arc::new(McpNetwork {
        dialler: Arc::new(SystemDialler),
        tls: OnceLock::new(),
        memory: OnceLock::new(),
    }))
}

fn target(label: &str, url: &str) -> McpTarget {
    McpTarget {
        label: label.to_owned(),
        transport: McpTransport::Http {
            url: Url::parse(url).unwrap(),
            token: None,
        },
        headers: Vec::new(),
        reach: McpReach::Any,
    }
}

/// Time passes, between two requests to a real server.
async fn pass(time: Duration) {
    pause();
    advance(time).await;
    resume();
}

/// The names of the tools, or the error.
async fn tools(server: &PooledServer) -> Result<Vec<String>, String> {
    let listed = server.tools(MAX_AGE, CALL_TIMEOUT).await;
    let names = |listed: Arc<ListedTools>| {
        let tools = listed.tools.iter();
        tools.map(|tool| tool.name.clone()).collect()
    };
    listed.map(names).map_err(|error| error.to_string())
}

/// Promise: The list of the tools of an MCP server is kept for `list_cache`, and is asked for again
/// when it is older.
#[tokio::test]
async fn an_old_list_is_asked_for_again() {
    let player = McpPlayer::start(vec![tool("look", true)], |_, _| McpAnswer::text("x"));
    let player = player.await.unwrap();
    let server = pool().get(target("docs", &player.url()), "local");
    for (passed, asked) in [(0, 1), (200, 1), (200, 2), (200, 2), (200, 3)] {
        pass(Duration::from_secs(passed)).await;
        assert_eq!(tools(&server).await.unwrap(), ["look"]);
        assert_eq!(player.count("tools/list"), asked, "after {passed} s");
    }
}

/// Promise: An MCP server that could not be asked for its tools is asked again after 30 seconds. If
/// it answers then, its failure is forgotten.
#[tokio::test]
async fn a_failure_is_kept_for_a_while() {
    let works = Arc::<AtomicBool>::default();
    let does_work = Arc::clone(&works);
    let player = McpPlayer::answering(move |method, _| {
        let list = json!({"tools": [tool("look", true)]});
        let answer = if does_work.load(Relaxed) {
            McpAnswer::Result(list)
        } else {
            McpAnswer::Status(503)
        };
        (method == "tools/list").then_some(answer)
    });
    let player = player.await.unwrap();
    let server = pool().get(target("docs", &player.url()), "local");
    for (passed, can_answer, shown, asked) in [
        (0, false, false, 1),
        (1, true, false, 1),
        (31, false, false, 2),
        (31, true, true, 3),
        (31, false, true, 3),
    ] {
        works.store(can_answer, Relaxed);
        pass(Duration::from_secs(passed)).await;
        let found = tools(&server).await;
        assert_eq!(found.is_ok(), shown, "after {passed} s: {found:?}");
        if let Err(error) = found {
            assert_eq!(error, "the server answered with HTTP 503");
        }
        assert_eq!(player.count("tools/list"), asked, "after {passed} s");
    }
}

/// Promise: There are at most 64 connections to MCP servers: the one that was not used for longest
/// ends. A connection also ends that was not used for 10 minutes, once another one is needed.
#[tokio::test(start_paused = true)]
async fn connections_that_nobody_uses_end() {
    let pool = pool();
    let get = |number: usize| {
        let label = format!("docs{number}");
        pool.get(target(&label, "http://127.0.0.1:1/mcp"), "local")
    };
    let is_kept = |number: usize| {
        let label = format!("docs{number}");
        let key = target(&label, "http://127.0.0.1:1/mcp").key("local");
        pool.servers.lock().contains_key(&key)
    };
    for number in 0..MAX_SERVERS {
        get(number);
        advance(Duration::from_secs(1)).await;
    }
    // It is used again, so the next one is the oldest.
    get(0);
    get(MAX_SERVERS);
    assert_eq!(pool.servers.lock().len(), MAX_SERVERS);
    assert!(is_kept(0) && !is_kept(1) && is_kept(2));

    let in_use = get(2);
    advance(IDLE).await;
    get(3);
    assert!(is_kept(4), "no other one was needed");
    get(MAX_SERVERS + 1);
    assert_eq!(pool.servers.lock().len(), 3);
    assert!(is_kept(2) && is_kept(3) && is_kept(MAX_SERVERS + 1));
    let ended = Arc::downgrade(&in_use);
    drop(in_use);
    advance(IDLE).await;
    get(MAX_SERVERS + 2);
    assert!(ended.upgrade().is_none());
}
