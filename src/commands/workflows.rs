//! `respondent workflows`: the workflows of the configuration, and runs of them in the running
//! server.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use adapters::workflow::{NodeKind, WorkflowDefinition};
use anyhow::Context;
use bytes::Bytes;
use comfy_table::CellAlignment::Left;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::cli::{EXIT_DIFFERENT, EXIT_OK, WorkflowsCommand};
use super::response_stream::ResponseStream;
use super::{ok_body, parse_answer, print_json, print_text};
use crate::config::Config;
use crate::control::ControlClient;
use crate::log::{SafeText, labelled, table, wrapped};

const RESPONSES_PATH: &str = "/v1/responses";
/// The most characters of a description in a list.
const LISTED_CHARS: usize = 100;

/// Runs a `respondent workflows` command and returns its exit code.
pub async fn run(config: &Config, command: WorkflowsCommand) -> anyhow::Result<u8> {
    match command {
        WorkflowsCommand::List { json } => list(config, json)?,
        WorkflowsCommand::Show { id, json } => {
            let definition = find(config, &id)?;
            if json {
                print_json(definition)?;
            } else {
                print_text(&shown(&id, definition))?;
            }
        }
        WorkflowsCommand::Run {
            id,
            input,
            var,
            model,
        } => {
            let definition = find(config, &id)?;
            let model = model.or_else(|| usual_model(config, definition));
            let input = (!input.is_empty()).then(|| input.join(" "));
            let body = json!({
                "model": model, "input": input, "background": true,
                "prompt": {"id": id, "variables": variables(&var)?},
            });
            return follow(&ControlClient::new(config), body).await;
        }
        WorkflowsCommand::Answer {
            response,
            approve,
            refuse: _,
            reason,
        } => {
            let control = ControlClient::new(config);
            let asking = response_of(&control, &response).await?;
            let body = decision(&asking, approve, reason.as_deref())?;
            return follow(&control, body).await;
        }
    }
    Ok(EXIT_OK)
}

fn find<'c>(config: &'c Config, id: &str) -> anyhow::Result<&'c WorkflowDefinition> {
    config.workflows.get(id).with_context(|| {
        format!(
            "there is no workflow {}; `respondent workflows list` shows all",
            SafeText::new(id)
        )
    })
}

fn list(config: &Config, json: bool) -> anyhow::Result<()> {
    if json {
        let all = config.workflows.iter();
        let all = all.map(|(id, of)| json!({"id": id, "description": of.description}));
        return print_json(&all.collect::<Vec<_>>());
    }
    let columns = [
        ("id", Left, 8),
        ("nodes", Left, 5),
        ("what it does", Left, 20),
    ];
    let rows = config.workflows.iter().map(|(id, definition)| {
        [
            id.to_owned(),
            definition.nodes.len().to_string(),
            SafeText::up_to(&definition.description, LISTED_CHARS).to_string(),
        ]
    });
    print_text(&table(columns, rows))
}

/// A workflow, for a person.
fn shown(id: &str, definition: &WorkflowDefinition) -> String {
    let mut text = format!("{id}: {}\n\n", SafeText::new(&definition.description));
    let variables = definition.variables();
    let rows = variables.iter().map(|name| {
        let default = definition.defaults.get(name);
        let default = default.map_or_else(|| "required".to_owned(), |it| format!("default: {it}"));
        (name.as_str(), SafeText::new(&default).to_string())
    });
    if !variables.is_empty() {
        text += "Variables\n";
        text += &labelled(12, rows);
        text.push('\n');
    }
    let columns = [
        ("node", Left, 8),
        ("kind", Left, 7),
        ("after", Left, 10),
        ("what", Left, 20),
    ];
    let rows = definition.nodes.iter().map(|node| {
        let needs: Vec<&str> = definition.needs(node).into_iter().collect();
        let what = match node.kind {
            NodeKind::Agent | NodeKind::Write => node.prompt.as_deref(),
            NodeKind::Search => node.queries.as_deref(),
            NodeKind::Open => node.urls.as_deref(),
            NodeKind::Approve => node.question.as_deref(),
        };
        let what = what.unwrap_or_default().trim().replace('\n', " ");
        let what = wrapped(&what, LISTED_CHARS).into_iter().next();
        [
            node.id.clone(),
            node.kind.name().to_owned(),
            needs.join(", "),
            SafeText::new(&what.unwrap_or_default()).to_string(),
        ]
    });
    text + &table(columns, rows)
}

/// The variables that were given as `NAME=VALUE`.
fn variables(given: &[String]) -> anyhow::Result<Value> {
    let mut variables = Map::new();
    for pair in given {
        let (name, value) = pair.split_once('=').with_context(|| {
            format!(
                "--var {} is not of the form NAME=VALUE",
                SafeText::new(pair)
            )
        })?;
        variables.insert(name.to_owned(), value.into());
    }
    Ok(Value::Object(variables))
}

/// The model of a run for which nobody names one.
fn usual_model(config: &Config, definition: &WorkflowDefinition) -> Option<String> {
    let registry = &config.registry;
    let first = || {
        let (provider, model) = registry.models().next()?;
        Some(provider.prefixed_name(&model.id))
    };
    let usual = definition.model.clone().or(registry.default_model.clone());
    usual.or_else(first)
}

async fn response_of(control: &ControlClient, id: &str) -> anyhow::Result<RunResponse> {
    let is_id = id
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    anyhow::ensure!(is_id, "{} is not the id of a response", SafeText::new(id));
    let path = format!("{RESPONSES_PATH}/{id}");
    parse_answer(&ok_body(control.get(&path).await?)?)
}

/// The request that answers the question of a response.
fn decision(asking: &RunResponse, approve: bool, reason: Option<&str>) -> anyhow::Result<Value> {
    let (question, _) = asking.question().context("this response asks nothing")?;
    Ok(json!({
        "model": asking.model, "previous_response_id": asking.id, "background": true,
        "input": [{
            "type": "mcp_approval_response", "approval_request_id": question,
            "approve": approve, "reason": reason,
        }],
    }))
}

/// What is read of a response.
#[derive(Deserialize)]
struct RunResponse {
    id: String,
    status: String,
    model: String,
    error: Option<RunError>,
    #[serde(default)]
    output: Vec<RunItem>,
}

#[derive(Deserialize)]
struct RunError {
    message: String,
}

#[derive(Deserialize)]
struct RunItem {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    arguments: String,
}

impl RunResponse {
    /// The id of the item with which the workflow asks a person, and what it asks.
    fn question(&self) -> Option<(&str, String)> {
        #[derive(Deserialize)]
        struct Arguments {
            question: String,
        }
        let mut items = self.output.iter();
        let item = items.find(|item| item.kind == "mcp_approval_request")?;
        let arguments: Arguments = serde_json::from_str(&item.arguments).ok()?;
        Some((&item.id, arguments.question))
    }
}

/// Runs a request in the background, and prints what becomes of it. A question of the workflow is
/// put to the person at the terminal, if there is one.
async fn follow(control: &ControlClient, body: Value) -> anyhow::Result<u8> {
    let mut body = body;
    loop {
        let sent = Bytes::from(body.to_string());
        let sent = control.send(&Method::POST, RESPONSES_PATH, sent).await?;
        let queued: RunResponse = parse_answer(&ok_body(sent)?)?;
        let id = &queued.id;
        let path = format!("{RESPONSES_PATH}/{id}?stream=true");
        let mut events = ResponseStream::new();
        let mut failed = Ok(());
        let status = control
            .stream(&path, |bytes| {
                failed = print_events(&mut events, bytes);
                failed.is_ok()
            })
            .await?;
        failed?;
        anyhow::ensure!(
            status == StatusCode::OK,
            "the server answered {}",
            status.as_u16()
        );
        let Some(ended): Option<RunResponse> = events.ended else {
            anyhow::bail!("the stream was cut off; `respondent jobs tail {id}` goes on with it");
        };
        if ended.status != "completed" {
            let error = ended.error.map(|error| error.message);
            let why = error.unwrap_or(ended.status);
            print_text(&format!("\n[{}]\n", SafeText::new(&why)))?;
            return Ok(EXIT_DIFFERENT);
        }
        let Some((_, asked)) = ended.question() else {
            print_text("\n")?;
            return Ok(EXIT_OK);
        };
        let Some(approve) = ask(&asked)? else {
            print_text(&format!(
                "The workflow waits for a person: {}\nAnswer it with `respondent workflows answer {id} --approve` or `--refuse`.\n",
                SafeText::new(&asked)
            ))?;
            return Ok(EXIT_DIFFERENT);
        };
        body = decision(&ended, approve, None)?;
    }
}

/// Asks the person at the terminal; `None` if there is no terminal.
fn ask(question: &str) -> anyhow::Result<Option<bool>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    print_text(&format!("\n{}\nApprove? [y/N] ", SafeText::new(question)))?;
    io::stdout().flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(Some(matches!(line.trim(), "y" | "Y" | "yes")))
}

#[derive(Deserialize)]
struct PrintedNode {
    node: RunNode,
}

#[derive(Deserialize)]
struct RunNode {
    id: String,
    error: Option<String>,
}

/// Prints what further bytes of a run's events say: what becomes of the nodes on standard error,
/// the text on standard output.
fn print_events(events: &mut ResponseStream<RunResponse>, bytes: &[u8]) -> anyhow::Result<()> {
    let mut nodes = String::new();
    let text = events.read(bytes, |kind, data| {
        let Some(change) = kind.strip_prefix("response.workflow.node.") else {
            return;
        };
        let Ok(PrintedNode { node }) = serde_json::from_str(data) else {
            return;
        };
        let why = node
            .error
            .map_or_else(String::new, |why| format!(": {why}"));
        let line = format!("[{} {}{why}]", node.id, change.replace('_', " "));
        nodes += &SafeText::new(&line).to_string();
        nodes.push('\n');
    });
    if !nodes.is_empty() {
        io::stderr().write_all(nodes.as_bytes())?;
    }
    if text.is_empty() {
        return Ok(());
    }
    print_text(&text)
}
