//! Rounds and their outcome. Each case is tried with a streaming client, with Codex and with a
//! client that wants the whole answer, and the recording of each is replayed without tools.
use std::collections::BTreeSet;

use kit::player::PlayerWire;
use kit::tools::ScriptedTool;
use serde_json::{Value, json};

use super::history::next;
use super::server::{RoundClient, RoundServer, call, call_with, history, question, request, usage};
use crate::faults::{answer, player};

struct RoundCase {
    name: &'static str,
    /// The steps of the upstream's answers.
    answers: Vec<Value>,
    /// The types of the output items; a failed one is marked with `!`.
    output: &'static str,
    /// The status of the response.
    status: &'static str,
    /// The same over Responses, if it differs.
    over_responses: Option<&'static str>,
    /// The calls that run in the proxy.
    ran: &'static [&'static str],
}

pub fn tools() -> Vec<ScriptedTool> {
    vec![
        ScriptedTool::new("look", "It is sunny.").shown_as_search(),
        ScriptedTool::new("fetch", "A page.").shown_as_mcp(),
        ScriptedTool::new("recall", "A fact."),
        ScriptedTool::new("broken", "No such page.")
            .failing()
            .shown_as_mcp(),
        ScriptedTool::new("lost", "Nothing found.")
            .failing()
            .shown_as_search(),
    ]
}

fn table() -> Vec<RoundCase> {
    let end = || json!([{"text": "It is sunny."}]);
    vec![
        RoundCase {
            name: "a round, a call that is answered here, a round",
            answers: vec![
                json!([{"reasoning": "hm"}, {"text": "I look."}, call("c1", "look")]),
                json!([{"reasoning": "aha"}, {"text": "It is sunny."}]),
            ],
            output: "reasoning message web_search_call reasoning message",
            status: "completed",
            over_responses: None,
            ran: &["look"],
        },
        RoundCase {
            name: "a call that the client does not see",
            answers: vec![json!([call("c1", "recall")]), end()],
            output: "message",
            status: "completed",
            over_responses: None,
            ran: &["recall"],
        },
        RoundCase {
            name: "two calls in one round",
            answers: vec![json!([call("c1", "look"), call("c2", "fetch")]), end()],
            output: "web_search_call mcp_call message",
            status: "completed",
            over_responses: None,
            ran: &["look", "fetch"],
        },
        RoundCase {
            name: "three rounds in which the provider's ids repeat",
            answers: vec![
                json!([call("call_0", "look")]),
                json!([call_with("call_0", "look", "tomorrow")]),
                json!([{"call": {"index": 0, "name": "fetch", "arguments": ""}}]),
                end(),
            ],
            output: "web_search_call web_search_call mcp_call message",
            status: "completed",
            over_responses: None,
            ran: &["look", "look", "fetch"],
        },
        RoundCase {
            name: "two calls of one round under the same id",
            answers: vec![
                json!([call("call_0", "look"), call("call_0", "fetch")]),
                end(),
            ],
            output: "web_search_call mcp_call message",
            status: "completed",
            over_responses: None,
            ran: &["look", "fetch"],
        },
        RoundCase {
            name: "tools that fail",
            answers: vec![json!([call("c1", "broken"), call("c2", "lost")]), end()],
            output: "mcp_call! web_search_call! message",
            status: "completed",
            over_responses: None,
            ran: &["broken", "lost"],
        },
        RoundCase {
            name: "arguments that are no JSON object",
            answers: vec![
                json!([{"call": {"id": "c1", "name": "look", "arguments": "[1]"}}]),
                end(),
            ],
            output: "message",
            status: "completed",
            over_responses: None,
            ran: &[],
        },
        RoundCase {
            name: "a call of the proxy, then one of the client",
            answers: vec![json!([{"text": "Both."}, call("c1", "look"), call("c2", "shell")])],
            output: "message web_search_call function_call",
            status: "completed",
            over_responses: None,
            ran: &["look"],
        },
        RoundCase {
            name: "a call of the client, then one of the proxy",
            answers: vec![json!([call("c1", "shell"), call("c2", "look")])],
            output: "function_call web_search_call",
            status: "completed",
            over_responses: None,
            ran: &["look"],
        },
        RoundCase {
            name: "calls of both, mixed, and text between them",
            answers: vec![json!([
                call("c1", "look"), call("c2", "shell"), {"text": "And"}, call("c3", "fetch"),
                call("c4", "shell"), {"text": "more."},
            ])],
            // Text of one upstream answer is one message on Chat Completions only.
            output: "web_search_call mcp_call function_call function_call message",
            status: "completed",
            over_responses: Some(
                "web_search_call mcp_call function_call message function_call message",
            ),
            ran: &["look", "fetch"],
        },
        RoundCase {
            name: "a round of the proxy, then calls of the client",
            answers: vec![
                json!([call("c1", "look")]),
                json!([{"text": "Now you."}, call("c2", "shell")]),
            ],
            output: "web_search_call message function_call",
            status: "completed",
            over_responses: None,
            ran: &["look"],
        },
        RoundCase {
            name: "an answer that is cut off by its limit runs nothing",
            answers: vec![
                json!([{"text": "I"}, call("c1", "look"), {"finish": "length"}, {"done": true}]),
            ],
            output: "message",
            status: "incomplete",
            over_responses: None,
            ran: &[],
        },
    ]
}

/// The types of the output items; a failed one is marked with `!`.
pub fn types(response: &Value) -> String {
    let items = response["output"].as_array().unwrap().iter();
    let types = items.map(|item| {
        let mark = if item["status"] == "failed" { "!" } else { "" };
        format!("{}{mark}", item["type"].as_str().unwrap())
    });
    types.collect::<Vec<_>>().join(" ")
}

/// Promise: A turn whose model calls tools of the proxy has several upstream answers and one
/// response: one id, one `created` and one terminal event. The results of the proxy's tools go to
/// the model in a further round of the same response, whose events go on with the same sequence
/// numbers. The model may call tools of the proxy in several rounds of one response.
#[kit::test(on_each_wire)]
async fn calls_of_the_proxys_tools_are_answered_in_one_response(wire: PlayerWire) {
    for case in table() {
        let expected = match wire {
            PlayerWire::Chat => case.output,
            PlayerWire::Responses => case.over_responses.unwrap_or(case.output),
        };
        for client in [
            RoundClient::Streaming,
            RoundClient::Codex,
            RoundClient::Whole,
        ] {
            let name = format!("{}, {client:?}", case.name);
            let player = player(wire).await;
            for steps in &case.answers {
                player.push(answer(steps.clone()));
            }
            let server = RoundServer::start(&[&player], &tools(), "");
            let response = server.answer(&request(&question()), client).await;
            assert_eq!(types(&response), expected, "{name}");
            assert_eq!(player.requests().len(), case.answers.len(), "{name}");
            let ran = server.tools.calls();
            let ran: Vec<&str> = ran.iter().map(|call| call.name.as_str()).collect();
            assert_eq!(ran, case.ran, "{name}");
            assert_eq!(response["status"], case.status, "{name}");
            server.check_replay();
        }
    }
}

/// Promise: The calls of the proxy's tools run whatever reason a provider gives for the end of its
/// answer, if it is whole.
#[kit::test]
async fn calls_run_whatever_the_finish_reason_is() {
    for reason in ["stop", "function_call", "eos", "tool_calls"] {
        let player = player(PlayerWire::Chat).await;
        let steps = json!([call("c1", "look"), {"finish": reason}, {"done": true}]);
        player.push(answer(steps));
        player.push(answer(json!([{"text": "It is sunny."}])));
        let server = RoundServer::start(&[&player], &tools(), "");
        let response = server
            .answer(&request(&question()), RoundClient::Codex)
            .await;
        assert_eq!(types(&response), "web_search_call message", "{reason}");
        assert_eq!(server.tools.calls().len(), 1, "{reason}");
        server.check_replay();
    }
}

/// Promise: The metrics have the calls of the proxy's tools, how long they took, and the rounds in
/// which the model called them.
#[kit::test(on_each_wire)]
async fn calls_their_time_and_rounds_are_counted(wire: PlayerWire) {
    let player = player(wire).await;
    for steps in [
        json!([call("c1", "look")]),
        json!([call_with("c2", "look", "tomorrow"), call("c3", "broken")]),
        json!([call("c4", "impatient"), call("c5", "shell")]),
    ] {
        player.push(answer(steps));
    }
    let mut tools = tools();
    tools.push(ScriptedTool::new("impatient", "").stalling());
    let server = RoundServer::start(&[&player], &tools, "");
    server
        .answer(&request(&question()), RoundClient::Streaming)
        .await;
    let metrics = server.metrics.render();
    let value = |series: &str| -> f64 {
        let mut lines = metrics.lines();
        let line = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let line = line.unwrap_or_else(|| panic!("no {series}:\n{metrics}"));
        line.parse().unwrap()
    };
    let is = |series: &str, expected: f64| {
        assert!((value(series) - expected).abs() < f64::EPSILON, "{series}");
    };
    is("respondent_tool_rounds_total", 3.0);
    for (tool, result, calls) in [
        ("look", "completed", 2.0),
        ("broken", "failed", 1.0),
        ("impatient", "failed", 1.0),
    ] {
        let labels = format!("tool=\"{tool}\",result=\"{result}\",client=\"local\"");
        is(&format!("respondent_tool_calls_total{{{labels}}}"), calls);
        let series = "respondent_tool_duration_seconds";
        is(&format!("{series}_count{{tool=\"{tool}\"}}"), calls);
        let took = value(&format!("{series}_sum{{tool=\"{tool}\"}}"));
        let least = if tool == "impatient" { 0.05 } else { 0.0 };
        assert!((least..60.0).contains(&took), "{tool}: {took}");
    }
}

/// Promise: A name that a provider sends in pieces is one name, and so is one that it repeats whole
/// in each chunk.
#[kit::test]
async fn a_name_in_pieces_is_one_name() {
    for pieces in [["lo", "o", "k"], ["look", "look", "look"]] {
        let mut steps: Vec<Value> = pieces
            .iter()
            .map(|name| {
                let call =
                    json!({"index": 0, "id": "c1", "function": {"name": name, "arguments": ""}});
                json!({"chunk": {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}})
            })
            .collect();
        steps.push(json!({"args": {"index": 0, "text": "{\"q\":\"weather\"}"}}));
        let player = player(PlayerWire::Chat).await;
        player.push(answer(json!(steps)));
        player.push(answer(json!([{"text": "It is sunny."}])));
        let server = RoundServer::start(&[&player], &tools(), "");
        let response = server
            .answer(&request(&question()), RoundClient::Streaming)
            .await;
        assert_eq!(types(&response), "web_search_call message", "{pieces:?}");
        let ran = server.tools.calls();
        assert_eq!(ran[0].arguments, "{\"q\":\"weather\"}");
        server.check_replay();
    }
}

#[kit::test(on_each_wire)]
async fn the_response_counts_the_input_of_its_last_round_and_the_metrics_that_of_all(
    wire: PlayerWire,
) {
    let player = player(wire).await;
    for (id, input, output) in [("c1", 100, 10), ("c2", 200, 20)] {
        player.push(answer(json!([call(id, "look"), usage(input, output)])));
    }
    player.push(answer(json!([{"text": "Sunny."}, usage(300, 30)])));
    let server = RoundServer::start(&[&player], &tools(), "");
    let response = server
        .answer(&request(&question()), RoundClient::Codex)
        .await;
    let usage = &response["usage"];
    assert_eq!(usage["input_tokens"], 300, "the input of the last round");
    assert_eq!(usage["output_tokens"], 60, "the output of all rounds");
    assert_eq!(usage["total_tokens"], 360);
    let recorded = server.recording().usage.unwrap();
    assert_eq!((recorded.input, recorded.output), (600, 60));
    let metrics = server.metrics.render();
    for (kind, count) in [("input", 600), ("output", 60)] {
        let line = metrics.lines().find(|line| {
            line.starts_with("respondent_tokens_total") && line.contains(&format!("\"{kind}\""))
        });
        let line = line.unwrap_or_else(|| panic!("no tokens of kind {kind}:\n{metrics}"));
        assert!(line.ends_with(&format!(" {count}")), "{line}");
    }
}

#[kit::test(on_each_wire)]
async fn a_clients_tool_of_the_same_name_is_the_clients(wire: PlayerWire) {
    let player = player(wire).await;
    player.push(answer(json!([call("c1", "shell")])));
    let shell = ScriptedTool::new("shell", "never");
    let server = RoundServer::start(&[&player], &[shell], "");
    let response = server
        .answer(&request(&question()), RoundClient::Streaming)
        .await;
    assert_eq!(types(&response), "function_call");
    assert!(server.tools.calls().is_empty());
    assert_eq!(
        player.requests()[0].json()["tools"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[kit::test(on_each_wire)]
async fn no_tools_of_the_proxy_are_offered_if_the_client_wants_no_call(wire: PlayerWire) {
    let player = player(wire).await;
    player.push(answer(json!([{"text": "no"}])));
    let server = RoundServer::start(&[&player], &tools(), "");
    let mut request = request(&question());
    request["tool_choice"] = json!("none");
    server.answer(&request, RoundClient::Streaming).await;
    let sent = player.requests()[0].json();
    assert!(!sent.to_string().contains("look"), "{sent}");
}

#[kit::test(on_each_wire)]
async fn a_required_call_is_required_in_the_first_round_only(wire: PlayerWire) {
    let player = player(wire).await;
    player.push(answer(json!([call("c1", "look")])));
    player.push(answer(json!([{"text": "Sunny."}])));
    let server = RoundServer::start(&[&player], &tools(), "");
    let mut request = request(&question());
    request["tool_choice"] = json!("required");
    server.answer(&request, RoundClient::Streaming).await;
    let sent = player.requests();
    assert_eq!(sent[0].json()["tool_choice"], "required");
    assert!(matches!(
        sent[1].json()["tool_choice"].as_str(),
        None | Some("auto")
    ));
}

#[kit::test(on_each_wire)]
async fn the_number_of_calls_and_rounds_is_limited(wire: PlayerWire) {
    // A model that calls a tool whatever it is told.
    let player = player(wire).await;
    for round in 0..20 {
        let day = format!("day {round}");
        player.push(answer(json!([call_with(
            &format!("c{round}"),
            "look",
            &day
        )])));
    }
    let server = RoundServer::start(&[&player], &tools(), "");
    let stream = server
        .stream(&request(&question()), RoundClient::Streaming)
        .await;
    assert_eq!(stream.terminal, "response.failed");
    assert_eq!(stream.error_code(), Some("server_error"));
    let message = stream.response["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("Tool execution limit exceeded: after 10 rounds"),
        "{message}"
    );
    assert_eq!(server.tools.calls().len(), 10);
    assert_eq!(player.requests().len(), 12);
    let told = history(&player.requests()[11]).to_string();
    assert!(
        told.contains("the limit of 10 rounds of tool calls is reached"),
        "{told}"
    );

    // Many calls in one round: those above the client's limit are answered, but not run.
    for (max_tool_calls, most) in [(3, 3), (0, 0)] {
        let player = crate::faults::player(wire).await;
        player.push(answer(many_calls(25)));
        player.push(answer(json!([{"text": "Enough."}])));
        let server = RoundServer::start(&[&player], &tools(), "");
        let mut request = request(&question());
        request["max_tool_calls"] = json!(max_tool_calls);
        let response = server.answer(&request, RoundClient::Streaming).await;
        assert_eq!(types(&response), "message");
        assert_eq!(server.tools.calls().len(), most);
        let sent = history(&player.requests()[1]);
        let is_result =
            |entry: &&Value| entry["role"] == "tool" || entry["type"] == "function_call_output";
        let results = sent.as_array().unwrap().iter().filter(is_result);
        assert_eq!(results.count(), 25);
    }
}

/// Promise: The operator's limits of rounds and calls of the proxy's tools hold for each answer; of
/// two limits of calls, the operator's and the request's, the smaller one.
#[kit::test(on_each_wire)]
async fn the_operator_limits_rounds_and_calls(wire: PlayerWire) {
    let player = player(wire).await;
    for round in 0..4 {
        let day = format!("day {round}");
        player.push(answer(json!([call_with("c", "look", &day)])));
    }
    let limits = "\n[tools]\nmax_rounds = 2\nmax_calls = 3\n";
    let server = RoundServer::start(&[&player], &tools(), limits);
    let asked = request(&question());
    let stream = server.stream(&asked, RoundClient::Streaming).await;
    let message = stream.response["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("after 2 rounds of tool calls"),
        "{message}"
    );
    assert_eq!(server.tools.calls().len(), 2);
    assert_eq!(player.requests().len(), 4);
    server.check_replay();
    for (asked_for, most) in [(5, 3), (2, 2)] {
        let player = crate::faults::player(wire).await;
        player.push(answer(many_calls(6)));
        player.push(answer(json!([{"text": "Enough."}])));
        let server = RoundServer::start(&[&player], &tools(), limits);
        let mut request = request(&question());
        request["max_tool_calls"] = json!(asked_for);
        server.answer(&request, RoundClient::Streaming).await;
        assert_eq!(server.tools.calls().len(), most);
        let told = history(&player.requests()[1]).to_string();
        let limit = format!("the limit of {most} tool calls is reached");
        assert!(told.contains(&limit), "{told}");
    }
}

/// Promise: A turn ends with an error that says why after three rounds in a row in which no tool
/// that the model called could be used, or as many as the operator allows. Calls that fail
/// otherwise end nothing.
#[kit::test(on_each_wire)]
async fn tools_that_cannot_be_used_end_the_turn(wire: PlayerWire) {
    let mistaken = |n: usize| {
        let (id, arguments) = (format!("m{n}"), r#"{"q":1}"#);
        json!([{"call": {"id": id, "name": "look", "arguments": arguments}}])
    };
    let many_mistaken: Value = (0..25)
        .filter_map(|n| mistaken(n).as_array().cloned())
        .flatten()
        .collect();
    let failing = |n: usize| json!([call_with(&format!("f{n}"), "lost", &n.to_string())]);
    for (name, limit, rounds, requests) in [
        (
            "three rounds",
            "",
            vec![mistaken(0), mistaken(1), mistaken(2)],
            None,
        ),
        (
            "rounds of many calls",
            "",
            vec![many_mistaken.clone(), many_mistaken.clone(), many_mistaken],
            None,
        ),
        (
            "two rounds are the limit",
            "[tools]\nmax_unusable_rounds = 2\n",
            vec![mistaken(0), mistaken(1)],
            None,
        ),
        (
            "a call that fails otherwise among them",
            "",
            vec![
                mistaken(0),
                mistaken(1),
                failing(2),
                mistaken(3),
                mistaken(4),
            ],
            Some(6),
        ),
        (
            "calls that fail otherwise",
            "",
            (0..10).map(failing).collect(),
            Some(11),
        ),
    ] {
        let player = player(wire).await;
        let most = rounds.len();
        for steps in rounds {
            player.push(answer(steps));
        }
        player.push(answer(json!([{"text": "Enough."}])));
        let server = RoundServer::start(&[&player], &tools(), &format!("\n{limit}"));
        let asked = request(&question());
        let stream = server.stream(&asked, RoundClient::Streaming).await;
        let Some(requests) = requests else {
            assert_eq!(stream.terminal, "response.failed", "{name}");
            let message = stream.response["error"]["message"].as_str().unwrap();
            assert!(message.contains("could be used"), "{name}: {message}");
            assert!(message.contains("do not fit the tool"), "{name}: {message}");
            assert_eq!(player.requests().len(), most, "{name}");
            continue;
        };
        assert_eq!(stream.terminal, "response.completed", "{name}");
        assert_eq!(player.requests().len(), requests, "{name}");
        server.check_replay();
    }
}

fn many_calls(count: usize) -> Value {
    let calls = (0..count).map(|n| call_with(&format!("c{n}"), "recall", &n.to_string()));
    calls.collect()
}

/// Promise: A model that calls more than 20 tools of the proxy at once ends its turn with an error
/// that says so, and none of them runs; up to 20 run, and any number of calls of the client's tools
/// reaches it. A call that equals an earlier one is not run again.
#[kit::test(on_each_wire)]
async fn the_calls_of_one_round_are_limited(wire: PlayerWire) {
    let player = player(wire).await;
    player.push(answer(many_calls(21)));
    let server = RoundServer::start(&[&player], &tools(), "");
    let asked = request(&question());
    let stream = server.stream(&asked, RoundClient::Streaming).await;
    assert_eq!(stream.terminal, "response.failed");
    let message = stream.response["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("Too many concurrent tool calls"),
        "{message}"
    );
    assert_eq!(server.tools.calls(), []);

    let player = crate::faults::player(wire).await;
    let of_client = (0..21).map(|n| call(&format!("c{n}"), "shell"));
    player.push(answer(of_client.collect()));
    let server = RoundServer::start(&[&player], &tools(), "");
    let response = server.answer(&asked, RoundClient::Streaming).await;
    assert_eq!(response["output"].as_array().unwrap().len(), 21);

    let player = crate::faults::player(wire).await;
    player.push(answer(many_calls(20)));
    player.push(answer(json!([call_with("again", "recall", "7")])));
    player.push(answer(json!([{"text": "Enough."}])));
    let server = RoundServer::start(&[&player], &tools(), "");
    let response = server.answer(&asked, RoundClient::Streaming).await;
    assert_eq!(types(&response), "message");
    assert_eq!(server.tools.calls().len(), 20);
    let told = history(&player.requests()[2]).to_string();
    assert!(told.contains("The same call was made before"), "{told}");
    server.check_replay();
}

/// Promise: A round that also calls tools of the client never ends in an error for the number of
/// its calls, because the client may run its own already: it gets all of them, and of the proxy's
/// tools twenty calls run. The next request tells the model of the others that they did not.
#[kit::test(on_each_wire)]
async fn a_round_with_calls_of_the_client_is_not_ended_by_its_limits(wire: PlayerWire) {
    let before = |count| vec![json!([call("c", "shell")]), many_calls(count)];
    let behind = |count| vec![many_calls(count), json!([call("c", "shell")])];
    for (steps, not_run) in [
        (before(21), 1),
        (behind(21), 1),
        (before(201), 181),
        (behind(201), 181),
    ] {
        for client in [
            RoundClient::Streaming,
            RoundClient::Codex,
            RoundClient::Whole,
        ] {
            let player = player(wire).await;
            let steps = steps.iter().flat_map(|steps| steps.as_array().unwrap());
            player.push(answer(steps.cloned().collect()));
            player.push(answer(json!([{"text": "Sunny."}])));
            let server = RoundServer::start(&[&player], &tools(), "");
            let response = server.answer(&request(&question()), client).await;
            assert_eq!(response["status"], "completed", "{client:?}");
            assert_eq!(types(&response), "function_call", "{client:?}");
            assert_eq!(server.tools.calls().len(), 20);
            server.check_replay();
            let next = next(&response, |_| true);
            server.answer(&next, client).await;
            let told = history(&player.requests()[1]).to_string();
            let count = told.matches("Not run: too many calls at once.").count();
            assert_eq!(count, not_run, "{client:?}: {told}");
        }
    }
    // After ten rounds, too.
    let player = player(wire).await;
    for round in 0..11 {
        let look = call_with(&format!("c{round}"), "look", &format!("day {round}"));
        player.push(answer(json!([look])));
    }
    let last = json!([
        call("c", "shell"),
        call_with("p", "look", "another day"),
        {"call": {"id": "m", "name": "look", "arguments": "[1]"}},
    ]);
    player.push(answer(last));
    let server = RoundServer::start(&[&player], &tools(), "");
    let asked = request(&question());
    let response = server.answer(&asked, RoundClient::Streaming).await;
    assert!(types(&response).ends_with(" function_call"));
    assert_eq!(server.tools.calls().len(), 10);
    server.check_replay();
}

/// Promise: The results of a round take at most 50 KiB, however many calls it has, and each call
/// has one: of 20 calls the model reads what came of them, of more it reads in a few words that
/// they were not run. More than 200 calls of tools of the proxy at once end the turn with an error.
#[kit::test(on_each_wire)]
async fn the_results_of_many_calls_are_short(wire: PlayerWire) {
    let tools = [ScriptedTool::new("recall", &"A long page. ".repeat(1_000))];
    let asked = request(&question());
    let wrong = json!({"q": vec!["wrong "; 100]}).to_string();
    for (equal, wrongs) in [(180, 0), (0, 180), (90, 90)] {
        let run = many_calls(20);
        let equal =
            (0..equal).map(|n| call_with(&format!("e{n}"), "recall", &(n % 20).to_string()));
        let wrongs = (0..wrongs).map(
            |n| json!({"call": {"id": format!("w{n}"), "name": "recall", "arguments": wrong}}),
        );
        let run = run.as_array().unwrap().iter().cloned();
        let player = player(wire).await;
        player.push(answer(wrongs.chain(run).chain(equal).collect()));
        player.push(answer(json!([{"text": "Enough."}])));
        let server = RoundServer::start(&[&player], &tools, "");
        server.answer(&asked, RoundClient::Streaming).await;
        assert_eq!(server.tools.calls().len(), 20);
        let sent = history(&player.requests()[1]);
        let results = sent.as_array().unwrap().iter().filter_map(|item| {
            let is_result = item["role"] == "tool" || item["type"] == "function_call_output";
            let text = item.get("content").or_else(|| item.get("output"))?;
            is_result.then(|| text.as_str().unwrap().len())
        });
        let results: Vec<usize> = results.collect();
        assert_eq!(results.len(), 200);
        let bytes: usize = results.iter().sum();
        assert!(bytes <= 50 << 10, "{bytes}");
        server.check_replay();
    }
    let player = player(wire).await;
    let wrong = json!({"call": {"name": "recall", "arguments": wrong}});
    player.push(answer(vec![wrong; 201].into()));
    let server = RoundServer::start(&[&player], &tools, "");
    let stream = server.stream(&asked, RoundClient::Streaming).await;
    assert_eq!(stream.terminal, "response.failed");
    let message = stream.response["error"]["message"].as_str().unwrap();
    assert!(message.contains("201 tools at once"), "{message}");
}

/// Promise: Equal calls of one round that only read are run once, and each has the result. One that
/// failed is run again in a later round.
#[kit::test(on_each_wire)]
async fn equal_calls_of_one_round_are_run_once(wire: PlayerWire) {
    let player = player(wire).await;
    player.push(answer(json!([
        call("c1", "recall"),
        call("c2", "broken"),
        call("c3", "recall"),
        call("c4", "broken"),
        call_with("c5", "recall", "other"),
    ])));
    player.push(answer(json!([call("c6", "broken")])));
    player.push(answer(json!([{"text": "Enough."}])));
    let server = RoundServer::start(&[&player], &tools(), "");
    let mut asked = request(&question());
    asked["max_tool_calls"] = json!(4);
    server.answer(&asked, RoundClient::Streaming).await;
    let ran = server.tools.calls();
    let ran: Vec<&str> = ran.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(ran, ["recall", "broken", "recall", "broken"]);
    let sent = history(&player.requests()[1]);
    let sent = sent.as_array().unwrap();
    let mut ids = BTreeSet::new();
    let results = sent.iter().filter_map(|entry| {
        let id = entry.get("tool_call_id").or_else(|| {
            let is_output = entry["type"] == "function_call_output";
            is_output.then(|| &entry["call_id"])
        })?;
        ids.insert(id.to_string());
        Some(entry.to_string())
    });
    let results: Vec<String> = results.collect();
    for (result, text) in results.iter().zip([
        "A fact.",
        "No such page.",
        "A fact.",
        "No such page.",
        "A fact.",
    ]) {
        assert!(result.contains(text), "{result}");
    }
    assert_eq!((results.len(), ids.len()), (5, 5));
    server.check_replay();
}
