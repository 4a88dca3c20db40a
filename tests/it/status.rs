//! `respondent status`, from the running server and without one.
use kit::address::ReservedAddress;
use kit::player::{Player, PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};

use crate::faults::{answer, player, repeating_player};
use crate::proxy::{Proxy, Setup, streaming};

/// An answer that uses 1,000 input tokens, of which 400 were cached, and 50 output tokens.
fn used() -> ScriptedAnswer {
    answer(json!([{"text": "a"}, {"usage": {
        "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050,
        "prompt_tokens_details": {"cached_tokens": 400}
    }}]))
}

/// Two models, of which one has a price.
fn setup() -> Setup {
    Setup::new().tables(
        "[[providers.up.models]]\nid = \"priced\"\nprice = { input = 1.0, cached_input = 0.5, output = 10.0 }\n\
         [[providers.up.models]]\nid = \"free\"",
    )
}

async fn run_turns(proxy: &Proxy) {
    for model in ["up/priced", "up/priced", "up/free"] {
        proxy
            .response(&json!({"model": model, "input": "go"}))
            .await;
    }
}

/// The status as JSON, asked for with the configuration of the server.
pub async fn status(proxy: &Proxy, setup: &Setup) -> Value {
    serde_json::from_str(&run_status(proxy, setup, &["--json"]).await).unwrap()
}

/// What `respondent status --all` prints.
pub async fn run_status(proxy: &Proxy, setup: &Setup, flags: &[&str]) -> String {
    let (code, out, err) = proxy
        .run_command(setup, &[&["status", "--all"], flags].concat())
        .await;
    assert_eq!(code, 0, "{out}{err}");
    out
}

fn assert_used(usage: &Value, priced_turns: u64) {
    let priced = &usage[0];
    assert_eq!(priced["provider"], "up");
    assert_eq!(priced["model"], "priced");
    assert_eq!(priced["turns"], priced_turns);
    assert_eq!(priced["input_tokens"], 1000 * priced_turns);
    assert_eq!(priced["cached_tokens"], 400 * priced_turns);
    assert_eq!(priced["output_tokens"], 50 * priced_turns);
    let cost = priced["cost"].as_f64().unwrap();
    // 600 tokens, 400 cached ones and 50 of output, for a million dollars each.
    let expected = (600.0 * 1.0 + 400.0 * 0.5 + 50.0 * 10.0) / 1e6;
    let turns = f64::from(u32::try_from(priced_turns).unwrap());
    assert!((cost - expected * turns).abs() < 1e-9, "{usage}");
    assert_eq!(usage[1]["model"], "free");
    assert_eq!(usage[1]["cost"], Value::Null);
    assert!(usage[1]["turns_without_price"].as_u64() >= Some(1));
}

/// Promise: `respondent status --all` shows the turns that run, the state of the providers with the
/// reason of their last failure, and what turns used today and in the last seven days by model,
/// also after a restart and without a server. An unknown price is shown as unknown.
#[kit::test]
async fn the_status_shows_running_turns_providers_and_usage() {
    let player = player(PlayerWire::Chat).await;
    for _ in 0..3 {
        player.push(used());
    }
    let setup = setup();
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    run_turns(&proxy).await;
    player.push(answer(json!([{"text": "begun"}, {"stall": true}])));
    let mut open = proxy
        .open(
            streaming(&json!({"model": "up/priced", "input": "go"})).to_string(),
            &[],
        )
        .await;
    open.read_until("begun").await;
    // A turn is counted shortly after its last byte.
    proxy
        .wait_for_metric("respondent_turns_total", "", 3.0)
        .await;
    let status = status(&proxy, &setup).await;
    assert_used(&status["usage"]["today"], 2);
    assert_used(&status["usage"]["week"], 2);
    let server = &status["server"];
    assert_eq!(server["running"][0]["route"], "up/priced");
    assert_eq!(server["running"].as_array().unwrap().len(), 1);
    assert_eq!(server["recent"].as_array().unwrap().len(), 3);
    assert_eq!(server["providers"][0]["id"], "up");
    assert_eq!(server["providers"][0]["asked"], true);
    assert!(status["disk"]["database_bytes"].as_u64() > Some(0));
    let text = run_status(&proxy, &setup, &[]).await;
    assert!(text.contains("1 turn is running."), "{text}");
    assert!(text.contains("unknown"), "{text}");
    assert_eq!(
        text.lines()
            .find(|line| line.chars().count() > 80 && !line.starts_with("  in ")),
        None
    );
}

#[kit::test]
async fn the_status_says_why_a_provider_does_not_answer() {
    let setup = setup();
    let address = ReservedAddress::new().unwrap();
    let setup = setup.provider("max_retries = 0");
    let proxy = Proxy::start_for_url(&format!("http://{address}/v1"), setup.clone()).await;
    let body = json!({"model": "up/free", "input": "go"});
    assert_eq!(proxy.post(&body).await.status, 502);
    let failure = format!("{address} refused the connection");
    let server = &status(&proxy, &setup).await["server"];
    assert_eq!(
        server["providers"][0]["last_request"]["failure"],
        failure.as_str()
    );
    let text = run_status(&proxy, &setup, &[]).await;
    assert!(
        text.contains(" s ago: ") && text.contains(&failure),
        "{text}"
    );
    for _ in 0..2 {
        proxy.post(&body).await;
    }
    let text = run_status(&proxy, &setup, &[]).await;
    let down = format!("down: {failure}; asked again in ");
    assert!(text.contains(&down), "{text}");
}

#[kit::test]
async fn usage_outlives_the_server() {
    let player = repeating_player(PlayerWire::Chat, used()).await;
    let setup = setup();
    let mut proxy = Proxy::start_with(&player, setup.clone()).await;
    run_turns(&proxy).await;
    proxy.terminate();
    assert!(proxy.wait_for_exit().await.success());
    let offline = status(&proxy, &setup).await;
    assert_eq!(offline["server"], Value::Null);
    assert_used(&offline["usage"]["today"], 2);
    let text = run_status(&proxy, &setup, &[]).await;
    assert!(text.starts_with("No server runs on "), "{text}");

    let next = Proxy::start_in_folder(proxy.folder, &setup.clone().wire_of(&player)).await;
    run_turns(&next).await;
    next.wait_for_metric("respondent_turns_total", "", 3.0)
        .await;
    assert_used(&status(&next, &setup).await["usage"]["today"], 4);
}

/// A refusal that is about one parameter.
fn parameter_refused() -> ScriptedAnswer {
    let error = json!({"message": NOT_PARALLEL, "param": "parallel_tool_calls",
        "code": "unknown_parameter"});
    ScriptedAnswer {
        json: Some(json!({ "error": error })),
        ..ScriptedAnswer::error(400, "")
    }
}

const NOT_PARALLEL: &str = "Unknown parameter: 'parallel_tool_calls'.";

/// A server that has learned that its model takes no `parallel_tool_calls`.
pub async fn learned_server(player: &Player, setup: &Setup) -> Proxy {
    player.push(parameter_refused());
    player.push(used());
    let proxy = Proxy::start_with(player, setup.clone()).await;
    let tools = json!([{"type": "function", "name": "f", "parameters": {"type": "object"}}]);
    let body = json!({"model": "up/free", "input": "go", "tools": tools,
        "parallel_tool_calls": false});
    proxy.response(&body).await;
    proxy
}

/// Promise: `respondent status --all` says how much was learned of models, and `respondent models
/// --learned` shows what, with the day and the refusal, also without a server.
#[kit::test]
async fn what_was_learned_of_models_is_shown_with_its_evidence() {
    let (player, setup) = (player(PlayerWire::Chat).await, setup());
    let mut proxy = learned_server(&player, &setup).await;
    let shown = &status(&proxy, &setup).await["server"]["learned"]["changes"];
    assert_eq!(shown.as_array().unwrap().len(), 1);
    let change = &shown[0];
    assert_eq!(
        (&change["provider"], &change["model"]),
        (&json!("up"), &json!("free"))
    );
    assert_eq!(change["for_owner"], "local");
    assert!(change["learned_at"].as_u64() > Some(0), "{change}");
    let evidence = change["evidence"].as_str().unwrap();
    assert!(evidence.contains(NOT_PARALLEL), "{evidence}");
    let text = run_status(&proxy, &setup, &[]).await;
    let line = "Learned of models (respondent models --learned): 1 change, 0 token ratios";
    assert!(text.contains(line), "{text}");

    let online = models(&proxy, &setup, &[]).await;
    assert!(online.starts_with("up/free\n"), "{online}");
    assert!(online.contains("parallel_tool_calls"), "{online}");
    assert!(
        online.contains(&format!("after: {NOT_PARALLEL}")),
        "{online}"
    );
    let others = models(&proxy, &setup, &["--provider", "other"]).await;
    assert_eq!(others, "Nothing was learned of models.\n");
    proxy.terminate();
    assert!(proxy.wait_for_exit().await.success());
    assert_eq!(models(&proxy, &setup, &[]).await, online);
    let json = models(&proxy, &setup, &["--json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["changes"][0], *change);
}

/// What `respondent models --learned` prints.
async fn models(proxy: &Proxy, setup: &Setup, flags: &[&str]) -> String {
    let args = [&["models", "--learned"], flags].concat();
    let (code, out, err) = proxy.run_command(setup, &args).await;
    assert_eq!(code, 0, "{out}{err}");
    out
}
