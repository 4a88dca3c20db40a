//! Searches of the web and its pages, over search engines on loopback.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kit::player::PlayerWire;
use kit::web::{WebAnswer, WebServer, WebServerRequest};
use serde_json::{Value, json};

use crate::faults::player;
use crate::proxy::{Proxy, Setup};

const JSON: &str = "application/json";

/// SerpApi, OpenRouter and DuckDuckGo in one server. The first `broken` of them answer with errors.
async fn engines(broken: &Arc<AtomicUsize>) -> WebServer {
    let broken = Arc::clone(broken);
    WebServer::start(move |request| founding_engine(request, broken.load(Ordering::Relaxed)))
        .await
        .unwrap()
}

fn founding_engine(request: &WebServerRequest, broken: usize) -> WebAnswer {
    let path = request.path.as_str();
    let (at, good) = if path.starts_with("/serp/search.json?") {
        let found = json!({"organic_results": [
            {"title": "From SerpApi", "link": "https://a.example/", "snippet": "An excerpt."},
            {"title": "Again", "link": "https://b.example/"},
        ]});
        (0, WebAnswer::new(200, JSON, found.to_string()))
    } else if path == "/or/chat/completions" {
        let citation =
            json!({"url": "https://c.example/", "title": "From a model", "content": "A text."});
        let cited = json!([{"type": "url_citation", "url_citation": citation}]);
        let message = json!({"role": "assistant", "content": "x", "annotations": cited});
        let found = json!({"choices": [{"message": message}]});
        (1, WebAnswer::new(200, JSON, found.to_string()))
    } else if path == "/ddg/html/" {
        let target = "//duckduckgo.com/l/?uddg=https%3A%2F%2Fd.example%2F%3Fq%3D1&rut=x";
        let page = format!(
            "<div class=\"result\"><a class=\"result__a\" href=\"{target}\">From a <b>page</b></a>\
             <a class=\"result__snippet\">An excerpt.</a></div>"
        );
        (2, WebAnswer::new(200, "text/html", page))
    } else {
        panic!("{request:?}")
    };
    if at >= broken {
        return good;
    }
    match at {
        2 => WebAnswer::new(200, "text/html", "<div class=\"anomaly-modal\">"),
        0 => WebAnswer::new(500, JSON, "{\"error\":\"not with key-of-serp\"}"),
        _ => WebAnswer::new(500, JSON, "{\"error\":\"no\"}"),
    }
}

/// The founding order, with these tables of keys.
fn founding(engines: &WebServer, keys: &str) -> Setup {
    let base =
        |name: &str, path: &str| format!("[search.{name}]\nbase_url = \"{}\"\n", engines.url(path));
    let tables = format!(
        "[search]\norder = [\"serpapi\", \"openrouter\", \"duckduckgo\"]\n{}{keys}{}key = \"key-of-or\"\n{}",
        base("serpapi", "/serp"),
        base("openrouter", "/or"),
        base("duckduckgo", "/ddg"),
    );
    Setup::new().tables(&tables)
}

async fn search(proxy: &Proxy, body: &Value) -> Value {
    let reply = proxy.post_to("/v1/search", body, &[]).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    serde_json::from_str(&reply.body).unwrap()
}

/// The paths of the requests since the last call, without their queries.
fn asked(engines: &WebServer, seen: &mut usize) -> Vec<String> {
    let requests = engines.requests();
    let path = |request: &WebServerRequest| request.path.split('?').next().unwrap().to_owned();
    let new = requests[*seen..].iter().map(path).collect();
    *seen = requests.len();
    new
}

/// Promise: Search engines are asked in the configured order until one has results: with the
/// founding order SerpAPI, then OpenRouter, then DuckDuckGo's page, then only the link to a search
/// page, which is marked. What one has found is used again for a time.
#[kit::test]
async fn search_engines_are_asked_in_the_founding_order() {
    let broken = Arc::new(AtomicUsize::new(0));
    let engines = engines(&broken).await;
    let player = player(PlayerWire::Chat).await;
    let setup = founding(&engines, "key = \"key-of-serp\"\n");
    let proxy = Proxy::start_with(&player, setup).await;
    let (serp, model, page) = ("/serp/search.json", "/or/chat/completions", "/ddg/html/");
    let mut seen = 0;
    for (count, engine, url, paths) in [
        (0, json!("serpapi"), "https://a.example/", vec![serp]),
        (
            1,
            json!("openrouter"),
            "https://c.example/",
            vec![serp, model],
        ),
        (
            2,
            json!("duckduckgo"),
            "https://d.example/?q=1",
            vec![serp, model, page],
        ),
        // The first has failed three times, and is left alone.
        (
            3,
            Value::Null,
            "https://duckduckgo.com/?q=words+3",
            vec![serp, model, page],
        ),
    ] {
        broken.store(count, Ordering::Relaxed);
        let body = json!({"query": format!("words {count}")});
        let answer = search(&proxy, &body).await;
        assert_eq!(answer["engine"], engine, "{answer}");
        assert_eq!(answer["results"][0]["url"], url, "{answer}");
        let is_synthetic = count == 3;
        assert_eq!(answer["results"][0]["synthetic"], is_synthetic, "{answer}");
        assert_eq!(asked(&engines, &mut seen), paths);
        assert_eq!(answer["attempts"].as_array().unwrap().len(), paths.len());
        let failed = answer["attempts"].as_array().unwrap().iter();
        let failed = failed
            .filter(|attempt| attempt["error"].is_string())
            .count();
        assert_eq!(failed, count, "{answer}");
        assert!(!answer.to_string().contains("key-of-serp"), "{answer}");
        // What was found is kept, and what was not found is asked for again.
        let again = search(&proxy, &body).await;
        assert_eq!(again["cached"], !is_synthetic, "{again}");
        assert_eq!(asked(&engines, &mut seen).is_empty(), !is_synthetic);
        assert_eq!(again["results"][0]["url"], url);
    }
    let requests = engines.requests();
    let form = requests.iter().find(|it| it.path == page);
    let form = &form.unwrap().body;
    assert!(form.contains("q=words+2"), "{form}");
    let path = &requests[0].path;
    assert!(
        path.contains("engine=duckduckgo") && path.contains("q=words+0"),
        "{path}"
    );
    assert!(path.contains("api_key=key-of-serp"), "{path}");
    for (labels, count) in [
        ("engine=\"serpapi\",result=\"found\"", 1.0),
        ("engine=\"openrouter\",result=\"found\"", 1.0),
        ("engine=\"duckduckgo\",result=\"found\"", 1.0),
        ("engine=\"duckduckgo\",result=\"challenge\"", 1.0),
        ("engine=\"duckduckgo\",result=\"paused\"", 1.0),
    ] {
        let found = proxy.metric("respondent_web_searches_total", labels).await;
        assert!((found - count).abs() < f64::EPSILON, "{labels} {found}");
    }
    let cached = proxy
        .metric("respondent_web_searches_cached_total", "")
        .await;
    assert!((cached - 3.0).abs() < f64::EPSILON, "{cached}");
    let log = proxy.wait_for_log("serpapi found 2 pages in ").await;
    assert!(!log.contains("words") && !log.contains("key-of"), "{log}");
}

/// A search engine without its key is not asked.
#[kit::test]
async fn without_a_key_a_search_engine_is_not_asked() {
    let engines = engines(&Arc::default()).await;
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start_with(&player, founding(&engines, "")).await;
    let answer = search(&proxy, &json!({"query": "x"})).await;
    assert_eq!(answer["engine"], "openrouter");
    assert!(
        answer["text"].as_str().unwrap().contains("do not quote it"),
        "{answer}"
    );
    assert_eq!(asked(&engines, &mut 0), ["/or/chat/completions"]);
}

/// Promise: `respondent search` prints byte for byte the text of `POST /v1/search`, from the
/// running server or, if none runs, with the configuration of the shell, and says which.
#[kit::test]
async fn the_command_prints_what_the_endpoint_answers() {
    let engines = engines(&Arc::default()).await;
    let player = player(PlayerWire::Chat).await;
    let setup = founding(&engines, "key = \"key-of-serp\"\n");
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let body = json!({"query": "two words", "results": 2, "allowed_domains": ["example"]});
    let fresh = search(&proxy, &body).await;
    let cached = search(&proxy, &body).await;
    let args = [
        "search",
        "two",
        "words",
        "--results",
        "2",
        "--domain",
        "example",
    ];
    let (code, out, err) = proxy.run_command(&setup, &args).await;
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (0, cached["text"].as_str().unwrap(), "")
    );
    let (_, out, _) = proxy
        .run_command(&setup, &[&args[..], &["--json"]].concat())
        .await;
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), cached);
    let status = crate::status::run_status(&proxy, &setup, &[]).await;
    for line in ["serpapi       1       0", "cache         3       0"] {
        assert!(status.contains(line), "{status}");
    }
    // No server runs at this address.
    let alone = args
        .iter()
        .fold(setup.arg("--listen").arg("127.0.0.1:1"), |setup, arg| {
            setup.arg(arg)
        });
    let (code, out, err) = alone.run(proxy.folder.path()).await;
    assert_eq!((code, out.as_str()), (0, fresh["text"].as_str().unwrap()));
    assert!(
        err.contains(
            "No server runs on 127.0.0.1:1; the configuration and the keys of this shell are used."
        ),
        "{err}"
    );
    assert_eq!(asked(&engines, &mut 0).len(), 2);
}

/// An edit of `[search]` is used at once, and nothing found before it is.
#[kit::test]
async fn an_edit_of_search_is_applied() {
    let engines = engines(&Arc::default()).await;
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start_with(&player, founding(&engines, "")).await;
    assert_eq!(
        search(&proxy, &json!({"query": "x"})).await["engine"],
        "openrouter"
    );
    let edit = |tables: &str| {
        let text = Setup::new().tables(tables).config(&player.base_url());
        crate::proxy::write(proxy.folder.path(), "proxy-config.toml", &text);
    };
    edit("[search]\norder = []");
    proxy.wait_for_log("[search] changed").await;
    let answer = search(&proxy, &json!({"query": "x"})).await;
    assert!(
        answer["text"]
            .as_str()
            .unwrap()
            .contains("No search engine is configured."),
        "{answer}"
    );
    let seen = engines.requests().len();
    edit("[search]\nmode = \"off\"");
    for path in ["/v1/search", "/v1/scrape"] {
        let body = json!({"query": "x", "url": "x"});
        let name = if path.ends_with("search") {
            "query"
        } else {
            "url"
        };
        let body = json!({name: body[name]});
        loop {
            let reply = proxy.post_to(path, &body, &[]).await;
            if reply.status == 404 {
                assert_eq!(reply.error(404)["code"], "search_off");
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    assert_eq!(engines.requests().len(), seen);
}

#[kit::test]
async fn what_a_search_cannot_be_is_refused() {
    let player = player(PlayerWire::Chat).await;
    let setup = Setup::new().tables("[search]\norder = []");
    let proxy = Proxy::start_with(&player, setup).await;
    for (path, body, param) in [
        ("/v1/search", json!([]), "body"),
        ("/v1/search", json!({"query": 7}), "body"),
        ("/v1/search", json!({"query": "x", "other": 1}), "body"),
        (
            "/v1/search",
            json!({"query": "x", "search_context_size": "all"}),
            "body",
        ),
        ("/v1/search", json!({"query": " "}), "query"),
        ("/v1/search", json!({"query": "x", "results": 0}), "results"),
        (
            "/v1/search",
            json!({"query": "x", "results": 21}),
            "results",
        ),
        (
            "/v1/search",
            json!({"query": "x", "blocked_domains": vec!["a"; 101]}),
            "blocked_domains",
        ),
        ("/v1/scrape", json!({}), "url"),
        ("/v1/scrape", json!({"url": "x", "wait": true}), "body"),
    ] {
        let error = proxy.post_to(path, &body, &[]).await.error(400);
        assert_eq!(error["param"], param, "{body}: {error}");
    }
}

/// Promise: A page on this machine is not read, whoever asks and however it is written; why a page
/// was not read is part of the answer, and no error of the request.
#[kit::test]
async fn a_page_of_this_machine_is_not_read() {
    let page = "<p>secret".repeat(99);
    let private = WebServer::start(move |_| WebAnswer::new(200, "text/html", &page));
    let private = private.await.unwrap();
    let player = player(PlayerWire::Chat).await;
    let setup = Setup::new().tables("[search]\norder = []");
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let port = private.url("").rsplit_once(':').unwrap().1.to_owned();
    for (url, code) in [
        (private.url("/"), "BAD_URL"),
        ("http://127.0.0.1:8080/".to_owned(), "BAD_URL"),
        ("http://localhost:8080/".to_owned(), "BAD_URL"),
        ("http://[::ffff:127.0.0.1]:8080/".to_owned(), "BAD_URL"),
        (format!("http://localhost:{port}/"), "BAD_URL"),
        ("file:///etc/passwd".to_owned(), "BAD_URL"),
    ] {
        let reply = proxy.post_to("/v1/scrape", &json!({"url": url}), &[]).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let answer: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert_eq!(answer["page"], Value::Null);
        let text = answer["text"].as_str().unwrap();
        let message = answer["error"]["message"].as_str().unwrap();
        assert_eq!(text, format!("{url} could not be read: {message}.\n"));
        let (status, out, _) = proxy.run_command(&setup, &["open", &url]).await;
        assert_eq!((status, out.as_str()), (1, text));
    }
    assert!(private.requests().is_empty());
    let failed = proxy
        .metric("respondent_web_pages_total", "result=\"BAD_URL\"")
        .await;
    assert!((failed - 12.0).abs() < f64::EPSILON, "{failed}");
}

#[kit::test]
async fn the_doctor_tells_which_search_engines_are_on_and_answer() {
    let engines = engines(&Arc::new(AtomicUsize::new(1))).await;
    let player = player(PlayerWire::Chat).await;
    let setup = founding(&engines, "key = \"key-of-serp\"\n");
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let rows = async |args: &[&str]| {
        let (_, out, err) = proxy
            .run_command(&setup, &[&["doctor", "--json"], args].concat())
            .await;
        let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        let checks = report["checks"].as_array().unwrap().clone().into_iter();
        let checks = checks.filter(|check| check["check"] == "search");
        let text = |check: Value| format!("{}: {}", check["status"], check["message"]);
        checks.map(text).collect::<Vec<_>>()
    };
    let on = "\"ok\": \"serpapi (configuration file), openrouter (configuration file), duckduckgo (no key)\"";
    assert_eq!(rows(&["--provider", "up"]).await, [on]);
    assert!(engines.requests().is_empty());
    let found = rows(&["--provider", "up", "--search"]).await;
    assert_eq!(found.len(), 4, "{found:#?}");
    assert!(
        found[1].starts_with("\"warning\": \"serpapi: the search engine refuses"),
        "{found:#?}"
    );
    assert!(
        found[3].starts_with("\"ok\": \"duckduckgo answers in "),
        "{found:#?}"
    );
    assert_eq!(engines.requests().len(), 3);
}
