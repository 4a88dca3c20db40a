//! Workflows: a request names one in its `prompt`, and the server runs its nodes in one response.
//!
//! | module | contents |
//! |---|---|
//! | `runs` | what the client gets of a run, and what the models are asked |
//! | `research` | the workflow that comes with the program |
//! | `approvals` | nodes that wait for a person |
//! | `restarts` | runs that outlive the process |
//! | `commands` | `respondent workflows` |
mod approvals;
mod commands;
mod research;
mod restarts;
mod runs;

use kit::player::{Player, PlayerWire, RequestCondition, ScriptedAnswer};
use kit::web::WebServer;
use serde_json::{Value, json};

use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};
use crate::web_search::server::{engine, setup as searching};
use crate::web_search::web::without_hosted_tools;

/// A workflow that no code knows: a plan, a search for what it says, and a report of both.
const TRIP: &str = r#"
description = "Plans a trip."

[defaults]
style = "short"

[[nodes]]
id = "plan"
kind = "agent"
instructions = "You plan trips."
prompt = "PLAN a trip to {{place}}: {{input}}"

[[nodes]]
id = "look"
kind = "search"
queries = "{{plan}}"
max = 2

[[nodes]]
id = "report"
kind = "write"
instructions = "You write {{style}} reports."
prompt = "REPORT on {{place}}.\nPlan: {{plan}}\nFound: {{look}}"
"#;

/// A provider whose answer depends on what the model is asked last.
async fn provider(wire: PlayerWire, answers: &[(&str, Value)]) -> Player {
    let player = player(wire).await;
    for (asked, steps) in answers {
        player.push(to(asked, steps.clone()));
    }
    player
}

/// An answer to a last message with this text.
fn to(asked: &str, steps: Value) -> ScriptedAnswer {
    ScriptedAnswer {
        when: RequestCondition {
            last_contains: Some(asked.to_owned()),
            ..RequestCondition::default()
        },
        ..answer(steps)
    }
}

/// A server that searches the web with this engine, and has these workflows.
fn setup(engine: &WebServer, workflows: &[(&str, &str)]) -> Setup {
    with_workflows(searching(engine), workflows)
}

fn with_workflows(setup: Setup, workflows: &[(&str, &str)]) -> Setup {
    if workflows.is_empty() {
        return setup;
    }
    let setup = setup.tables("[workflows]\nfolder = \"workflows\"\n");
    workflows.iter().fold(setup, |setup, (id, text)| {
        setup.file(&format!("workflows/{id}.toml"), text)
    })
}

/// A server with this provider, a search engine and these workflows.
async fn start(player: &Player, workflows: &[(&str, &str)]) -> (Proxy, Setup, WebServer) {
    let engine = engine().await;
    let wire = player.wire().unwrap();
    let setup = setup(&engine, workflows).provider(without_hosted_tools(wire));
    let proxy = Proxy::start_with(player, setup.clone()).await;
    (proxy, setup, engine)
}

/// A request that runs a workflow.
fn run(workflow: &str, variables: &Value, input: &str) -> Value {
    json!({
        "model": "up/m", "input": input, "prompt": {"id": workflow, "variables": variables},
    })
}

/// The text of the messages of a response.
fn text(response: &Value) -> String {
    let items = response["output"].as_array().unwrap().iter();
    let messages = items.filter(|item| item["type"] == "message");
    let parts = messages.flat_map(|item| item["content"].as_array().unwrap());
    parts.map(|part| part["text"].as_str().unwrap()).collect()
}

/// The status of each node of a response, in the order in which they began.
fn statuses(response: &Value) -> Vec<String> {
    let state = &response["workflow_state"];
    let order = state["order"].as_array().unwrap().iter();
    let of_node = |id: &Value| {
        let id = id.as_str().unwrap();
        format!("{id} {}", state["nodes"][id]["status"].as_str().unwrap())
    };
    order.map(of_node).collect()
}

/// The last message of each request that the provider got.
fn asked(player: &Player) -> Vec<String> {
    let requests = player.requests();
    let last = requests.iter().map(|sent| {
        let sent = sent.json();
        let history = sent.get("messages").or(sent.get("input")).unwrap();
        let last = history.as_array().unwrap().last().unwrap();
        let content = &last["content"];
        let text = content.as_str().or(content[0]["text"].as_str());
        text.unwrap().to_owned()
    });
    last.collect()
}
