//! Another provider answers when the first choice cannot.
use kit::player::{Player, ScriptedAnswer};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use super::{always, answer, player};
use crate::proxy::{Proxy, Setup, streaming};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case("a fallback answers for a provider that is down", down),
        case("a fallback answers before an answer has begun", begun),
        case("a refused request goes nowhere else", refused),
        case("the fallback gets the turn in its own words", words),
        case("a session stays where it went", sessions),
        case("a provider that failed rests", cooling),
        case("after its rest one turn tries a provider out", probing),
        case("a turn that finds no place goes to the fallback", full),
        case("a short limit sends nobody away", briefly),
        case("where all are limited the soonest counts", nowhere),
        case("a session leaves a route that is gone", onward),
        case("a broken fallback is passed over", chain),
        case("turns wait for their place", places),
        case("keys are shared by weight and kept by session", weights),
    ]
}

/// `up` and `other`, which stands in for it.
async fn both(up: &Player, other: &Player, more: &str) -> Proxy {
    Proxy::with(up, beside(other, more)).await
}

fn beside(other: &Player, more: &str) -> Setup {
    Setup::new().tables(&format!(
        "[routing.fallbacks]\n\"up/m\" = [\"other/m2\"]\n\
         [providers.other]\nwire = \"chat\"\nbase_url = \"{}\"\nkey_required = false\n{more}",
        other.base_url()
    ))
}

fn body() -> Value {
    json!({"model": "up/m", "input": "go"})
}

fn says(text: &str) -> ScriptedAnswer {
    answer(json!([{ "text": text }]))
}

fn quota() -> ScriptedAnswer {
    ScriptedAnswer {
        json: Some(json!({"error": {"message": "No money.", "code": "insufficient_quota"}})),
        ..ScriptedAnswer::error(429, "")
    }
}

async fn down() {
    let mut busy = ScriptedAnswer::error(429, "slow down");
    busy.headers.insert("retry-after".into(), "20".into());
    for first in [
        ScriptedAnswer::error(500, "broken"),
        ScriptedAnswer::error(503, "full"),
        ScriptedAnswer::error(401, "who?"),
        busy,
        quota(),
        answer(json!([{"cut": "rst"}])),
        answer(json!([{"raw": "data: what\n\n"}])),
    ] {
        let up = always(first).await;
        let other = always(says("there")).await;
        let proxy = both(&up, &other, "").await;
        let reply = proxy.post(&streaming(&body())).await;
        assert_eq!(reply.header("x-respondent-route"), Some("other/m2"));
        let notes = reply.header("x-respondent-notes").unwrap_or_default();
        assert!(notes.contains("failover"), "{notes}");
        assert_eq!(reply.stream().text(), "there");
        assert_eq!(proxy.whole(&body()).await["status"], "completed");
        proxy.logged("failover (up: ").await;
        let moved = proxy.figure("respondent_failovers_total", "from=\"up/m\"");
        assert!(moved.await >= 1.0);
    }
    let other = always(says("there")).await;
    let gone = player().await;
    let proxy = both(&gone, &other, "").await;
    drop(gone);
    assert_eq!(proxy.stream(&body()).await.text(), "there");
}

async fn begun() {
    let up = always(answer(json!([{"text": "a"}, {"cut": "fin"}]))).await;
    let other = always(says("there")).await;
    let proxy = both(&up, &other, "").await;
    let stream = proxy.stream(&body()).await;
    assert_eq!(stream.terminal, "response.failed");
    assert!(other.requests().is_empty());
}

async fn refused() {
    for (status, message) in [
        (400, "Your messages make no sense."),
        (400, "This model's maximum context length is 10 tokens."),
        (403, "not yours"),
    ] {
        let up = always(ScriptedAnswer::error(status, message)).await;
        let other = always(says("there")).await;
        let proxy = both(&up, &other, "").await;
        assert_eq!(proxy.post(&body()).await.status, status, "{message}");
        assert!(other.requests().is_empty(), "{message}");
    }
}

async fn words() {
    let up = always(quota()).await;
    let other = always(says("there")).await;
    let quirks = "[providers.other.quirks]\nsystem_role = \"developer\"\nmax_tokens_field = \"max_completion_tokens\"";
    let proxy = both(&up, &other, quirks).await;
    let body = json!({"model": "up/m", "instructions": "Be brief.", "input": "go", "max_output_tokens": 99});
    assert_eq!(proxy.stream(&body).await.text(), "there");
    let sent: Value = serde_json::from_str(&other.requests()[0].body).unwrap();
    assert_eq!(sent["model"], "m2");
    assert_eq!(sent["max_completion_tokens"], 99);
    assert_eq!(sent["messages"][0]["role"], "developer");
}

/// A turn of the session with this name.
fn turn(session: &str) -> Value {
    json!({"model": "up/m", "input": "go", "prompt_cache_key": session})
}

async fn sessions() {
    let up = player().await;
    let other = always(says("there")).await;
    let proxy = both(&up, &other, "").await;
    // Once is not enough to let the provider rest.
    for _ in 0..2 {
        up.push(ScriptedAnswer::error(500, "broken"));
    }
    up.push(says("here"));
    assert_eq!(proxy.stream(&turn("a")).await.text(), "there");
    assert_eq!(proxy.stream(&turn("a")).await.text(), "there");
    assert_eq!(proxy.stream(&turn("b")).await.text(), "here");
}

async fn cooling() {
    let up = always(quota()).await;
    let other = always(says("there")).await;
    let proxy = both(&up, &other, "").await;
    for session in ["a", "b", "c"] {
        assert_eq!(proxy.stream(&turn(session)).await.text(), "there");
    }
    assert_eq!(up.requests().len(), 1);
    let down = proxy.figure("respondent_provider_down", "provider=\"up\"");
    assert!((down.await - 1.0).abs() < f64::EPSILON);
    // Each session left it once, and stays.
    proxy.stream(&turn("c")).await;
    let moved = proxy.figure("respondent_failovers_total", "from=\"up/m\"");
    assert!((moved.await - 3.0).abs() < f64::EPSILON);
    let reply = proxy.post(&streaming(&turn("d"))).await;
    let notes = reply.header("x-respondent-notes").unwrap_or_default();
    assert!(notes.contains("failover"), "{notes}");
}

async fn probing() {
    let up = player().await;
    let other = always(says("there")).await;
    let setup = beside(&other, "").server("commit_after = \"10ms\"");
    let proxy = Proxy::with(&up, setup).await;
    let mut busy = ScriptedAnswer::error(429, "slow down");
    busy.headers.insert("retry-after".into(), "2.1".into());
    up.push(busy);
    up.push(answer(json!([{"stall": true}])));
    let mut sessions = 0..;
    let tries_it = loop {
        let session = sessions.next().unwrap_or(0).to_string();
        let answer = proxy
            .open(streaming(&turn(&session)).to_string(), &[])
            .await;
        if answer.headers.get("x-respondent-route").unwrap() == "up/m" {
            break answer;
        }
        assert_eq!(answer.rest().await.stream().text(), "there");
    };
    for session in ["b", "c"] {
        assert_eq!(proxy.stream(&turn(session)).await.text(), "there");
    }
    drop(tries_it);
    assert_eq!(up.requests().len(), 2);
}

async fn full() {
    let up = always(answer(json!([{"text": "first"}, {"stall": true}]))).await;
    let other = always(says("there")).await;
    let setup = beside(&other, "").provider("max_concurrent = 1");
    let proxy = Proxy::with(&up, setup).await;
    let mut first = proxy.open(streaming(&body()).to_string(), &[]).await;
    first.until("first").await;
    assert_eq!(proxy.stream(&turn("b")).await.text(), "there");
    assert_eq!(up.requests().len(), 1);
}

async fn briefly() {
    let up = player().await;
    let other = always(says("there")).await;
    let proxy = both(&up, &other, "").await;
    let mut busy = ScriptedAnswer::error(429, "slow down");
    busy.headers.insert("retry-after".into(), "1.9".into());
    up.push(busy);
    for _ in 0..2 {
        up.push(says("here"));
    }
    let first = proxy.open(streaming(&turn("a")).to_string(), &[]);
    let second = async {
        while up.requests().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        proxy.stream(&turn("b")).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(second.text(), "here");
    assert_eq!(first.rest().await.stream().text(), "here");
    assert!(other.requests().is_empty());
}

async fn nowhere() {
    let limited = |seconds: &str| {
        let mut limited = ScriptedAnswer::error(429, "slow down");
        limited.headers.insert("retry-after".into(), seconds.into());
        limited
    };
    for second in [limited("3000"), quota(), ScriptedAnswer::error(401, "who?")] {
        let up = always(limited("40")).await;
        let other = always(second).await;
        let proxy = both(&up, &other, "").await;
        let reply = proxy.post(&body()).await;
        assert_eq!(
            (reply.status, reply.header("retry-after")),
            (429, Some("40"))
        );
        assert_eq!((up.requests().len(), other.requests().len()), (1, 1));
    }
}

async fn onward() {
    let up = always(quota()).await;
    let other = always(says("there")).await;
    let third = always(says("third")).await;
    let setup = beside(&other, "").tables(&format!(
        "[providers.third]\nwire = \"chat\"\nbase_url = \"{}\"\nkey_required = false",
        third.base_url()
    ));
    let proxy = Proxy::with(&up, setup).await;
    assert_eq!(proxy.stream(&turn("a")).await.text(), "there");
    // Its new provider goes out of the routes.
    let path = proxy.folder.path().join("proxy-config.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, config.replace("other/m2", "third/m3")).unwrap();
    while proxy.stream(&turn("b")).await.text() != "third" {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(proxy.stream(&turn("a")).await.text(), "third");
}

async fn chain() {
    for second in [
        quota(),
        ScriptedAnswer::error(404, "The model `m2` does not exist"),
        ScriptedAnswer::error(400, "This model's maximum context length is 1000 tokens."),
    ] {
        let up = always(quota()).await;
        let other = always(second).await;
        let third = always(says("third")).await;
        let setup = Setup::new().tables(&format!(
            "[routing.fallbacks]\n\"*\" = [\"other/m2\", \"third/m3\"]\n\
             [providers.other]\nwire = \"chat\"\nbase_url = \"{}\"\nkey_required = false\n\
             [providers.third]\nwire = \"chat\"\nbase_url = \"{}\"\nkey_required = false\n",
            other.base_url(),
            third.base_url()
        ));
        let proxy = Proxy::with(&up, setup).await;
        let reply = proxy.post(&streaming(&body())).await;
        assert_eq!(reply.header("x-respondent-route"), Some("third/m3"));
        assert_eq!(reply.stream().text(), "third");
    }
}

async fn places() {
    let player = player().await;
    let proxy = Proxy::with(&player, Setup::new().provider("max_concurrent = 1")).await;
    player.push(answer(json!([{"text": "first"}, {"stall": true}])));
    player.push(says("second"));
    let mut first = proxy.open(streaming(&body()).to_string(), &[]).await;
    first.until("first").await;
    let second = {
        let body = body();
        let asked = proxy.whole(&body);
        let waits = async {
            proxy.until("respondent_open_streams", "", 2.0).await;
            let before = player.requests().len();
            drop(first);
            before
        };
        let (answer, before) = tokio::join!(asked, waits);
        assert_eq!(before, 1);
        answer
    };
    assert_eq!(second["output"][0]["content"][0]["text"], "second");
}

async fn weights() {
    let player = always(says("there")).await;
    let setup = Setup::new()
        .provider("api_key = [\"key-number-one\", \"key-number-two\"]\nkey_weights = [3, 1]");
    let proxy = Proxy::with(&player, setup).await;
    for session in 0..40 {
        for _ in 0..2 {
            proxy.stream(&turn(&session.to_string())).await;
        }
    }
    let second: Vec<bool> = player
        .requests()
        .iter()
        .map(|request| request.head.contains("key-number-two"))
        .collect();
    for session in second.chunks(2) {
        assert_eq!(session[0], session[1]);
    }
    let share = second.iter().filter(|second| **second).count();
    assert!((4..40).contains(&share), "{share} of 80");
}
