//! A server in this process whose turns have scripted tools and are recorded.
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adapters::responses::assembler::{HostedItem, WithheldCall};
use adapters::tools::ProxyTool;
use adapters::turn::Turn;
use arc_swap::ArcSwap;
use axum::body::Body;
use http::{HeaderValue, Response};
use http_body_util::BodyExt;
use kit::player::{Player, PlayerWire, RecordedRequest};
use kit::strict::CheckedStream;
use kit::tools::{ScriptedTool, ScriptedTools};
use respondent::artifacts::Artifacts;
use respondent::clock::System;
use respondent::config::{self, Config, Inputs, LoadPurpose};
use respondent::diagnostics::bundle::{BundleTurn, Scope, compare};
use respondent::diagnostics::capture::{FinishedTurnSink, MemoryBudget, RecordedTurn, Recorder};
use respondent::diagnostics::replay::replay;
use respondent::metrics::Metrics;
use respondent::net::memory::ProcessMemory;
use respondent::responses::ResponseStore;
use respondent::tools::workflow_agent::WorkflowAgent;
use respondent::turn::{
    Service, ToolEffect, ToolFuture, ToolResult, ToolRunner, TurnContext, TurnEnvironment,
    TurnEnvironmentFactory, TurnRequest, TurnTools, respond,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A server with the provider `acme`, and `brand` behind it if the test has two.
pub struct RoundServer {
    pub tools: Arc<ScriptedTools>,
    pub metrics: Arc<Metrics>,
    pub shutdown: CancellationToken,
    pub artifacts: Artifacts,
    service: Arc<Service>,
    finished: Arc<LastRecording>,
}

/// The clients that a case is tried with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundClient {
    Streaming,
    Codex,
    Whole,
}

struct Tools(Arc<ScriptedTools>);

impl ToolRunner for Tools {
    fn offered(&self, _: &TurnContext, _: &Turn<'_>) -> Vec<ProxyTool> {
        self.0.definitions()
    }

    fn begin(&self, _: &TurnContext, _: &Turn<'_>, _: &str) -> Arc<dyn TurnTools> {
        Arc::new(Self(Arc::clone(&self.0)))
    }
}

impl TurnTools for Tools {
    fn has(&self, name: &str) -> bool {
        let mut tools = self.0.definitions().into_iter();
        tools.any(|tool| tool.name == name)
    }

    fn effect(&self, name: &str) -> ToolEffect {
        ToolEffect {
            timeout: match name {
                "impatient" => Duration::from_millis(50),
                _ => ToolEffect::READ_ONLY.timeout,
            },
            ..ToolEffect::READ_ONLY
        }
    }

    fn shown(&self, call: &WithheldCall) -> Option<HostedItem> {
        self.0.shown(call)
    }

    fn run<'r>(&'r self, _: &'r TurnContext, call: &'r WithheldCall) -> ToolFuture<'r> {
        if call.name == "abrupt" {
            // Before there is a future.
            std::panic::resume_unwind(Box::new("a defect in a tool"));
        }
        Box::pin(async {
            let (text, failed, item) = self.0.run(call).await;
            ToolResult {
                text,
                failed,
                item,
                ..ToolResult::default()
            }
        })
    }
}

#[derive(Default)]
struct LastRecording(Mutex<Option<BundleTurn>>);

impl FinishedTurnSink for LastRecording {
    fn add(&self, turn: RecordedTurn) {
        *self.0.lock().unwrap() = Some(turn.to_bundle_turn());
    }
}

/// Records each turn and gives it the tools.
struct RecordedEnvironments {
    tools: Arc<dyn ToolRunner>,
    finished: Arc<LastRecording>,
}

impl TurnEnvironmentFactory for RecordedEnvironments {
    fn create(&self, request_id: &Arc<str>, config: &Arc<Config>) -> TurnEnvironment {
        let mut live = System.create(request_id, config);
        live.tools = Some(Arc::clone(&self.tools));
        let finished: Arc<LastRecording> = Arc::clone(&self.finished);
        let budget = Arc::new(MemoryBudget::default());
        Recorder::environment(request_id, config, live, &budget, finished)
    }
}

impl RoundServer {
    /// A server before these players: `acme` and, if there is a second one, its fallback `brand`.
    /// `settings` are further lines of the table of `acme`.
    pub fn start(players: &[&Player], tools: &[ScriptedTool], settings: &str) -> Self {
        let tools = Arc::new(ScriptedTools::new(tools));
        let runner = Arc::new(Tools(Arc::clone(&tools)));
        Self {
            tools,
            ..Self::with_tools(players, runner, settings)
        }
    }

    /// The same with a store of responses.
    pub fn start_with_store(
        players: &[&Player],
        tools: &[ScriptedTool],
        settings: &str,
        responses: ResponseStore,
    ) -> Self {
        let tools = Arc::new(ScriptedTools::new(tools));
        let runner = Arc::new(Tools(Arc::clone(&tools)));
        Self {
            tools,
            ..Self::with_store(players, runner, settings, responses)
        }
    }

    /// The same with tools that are not scripted.
    pub fn with_tools(players: &[&Player], runner: Arc<dyn ToolRunner>, settings: &str) -> Self {
        let responses = ResponseStore::default();
        Self::with_store(players, runner, settings, responses)
    }

    /// The same with a store of responses.
    pub fn with_store(
        players: &[&Player],
        runner: Arc<dyn ToolRunner>,
        settings: &str,
        responses: ResponseStore,
    ) -> Self {
        let settings = [settings, ""].into_iter();
        let players: Vec<_> = players.iter().copied().zip(settings).collect();
        Self::made(&players, runner, responses)
    }

    /// The same with further lines of the table of each provider.
    pub fn with_settings(players: &[(&Player, &str)], runner: Arc<dyn ToolRunner>) -> Self {
        Self::made(players, runner, ResponseStore::default())
    }

    fn made(
        players: &[(&Player, &str)],
        runner: Arc<dyn ToolRunner>,
        responses: ResponseStore,
    ) -> Self {
        // Fails if another test has installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let mut text = String::new();
        for ((player, settings), id) in players.iter().zip(["acme", "brand"]) {
            let base = player.base_url();
            let wire = player.wire().map_or("chat", PlayerWire::name);
            let _ = writeln!(
                text,
                "[providers.{id}]\nwire = \"{wire}\"\nbase_url = \"{base}\"\n{settings}"
            );
        }
        if players.len() > 1 {
            text.push_str("[routing.fallbacks]\n\"acme/m\" = [\"brand/m\"]\n");
        }
        std::fs::write(folder.path().join("proxy-config.toml"), text).unwrap();
        let inputs = Inputs::under(folder.path());
        let config = config::load(&inputs, LoadPurpose::Serve).unwrap();
        let finished = Arc::new(LastRecording::default());
        let (metrics, shutdown) = (Arc::new(Metrics::new()), CancellationToken::new());
        let artifacts = Artifacts::memory(4 << 20);
        let service = Service::new(
            Arc::new(ArcSwap::from_pointee(config)),
            Arc::clone(&metrics),
            shutdown.clone(),
            Arc::new(RecordedEnvironments {
                tools: runner,
                finished: Arc::clone(&finished),
            }),
            artifacts.clone(),
            responses,
        );
        Self {
            tools: Arc::new(ScriptedTools::new([])),
            metrics,
            shutdown,
            artifacts,
            service: Arc::new(service),
            finished,
        }
    }

    /// Nodes of workflows ask models through this server.
    pub fn let_nodes_ask(&self, agent: &WorkflowAgent, memory: &ProcessMemory) {
        agent.run_in(&self.service, memory);
    }

    /// Sends a request and returns the response as soon as its head is there.
    pub async fn open(&self, request: &Value, client: RoundClient) -> Response<Body> {
        let mut asked = TurnRequest::default();
        if client == RoundClient::Codex {
            for (name, value) in [("originator", "codex_exec"), ("thread-id", "t")] {
                let value = HeaderValue::from_static(value);
                asked.headers.insert(name, value);
            }
        }
        let mut request = request.clone();
        request["stream"] = json!(client != RoundClient::Whole);
        respond(&self.service, asked, request.to_string()).await
    }

    /// The status and the whole body of the answer to a request.
    pub async fn send(&self, request: &Value, client: RoundClient) -> (u16, String) {
        let response = self.open(request, client).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// The checked stream that answers a request, for Codex or another client.
    pub async fn stream(&self, request: &Value, client: RoundClient) -> CheckedStream {
        let (status, body) = self.send(request, client).await;
        assert_eq!(status, 200, "{body}");
        if client == RoundClient::Codex {
            kit::strict::check_for_codex_or_panic(&body)
        } else {
            kit::strict::check_or_panic(&body)
        }
    }

    /// The final response object of the answer to a request.
    pub async fn answer(&self, request: &Value, client: RoundClient) -> Value {
        if client == RoundClient::Whole {
            let (status, body) = self.send(request, client).await;
            assert_eq!(status, 200, "{body}");
            kit::strict::check_response_or_panic(&body)
        } else {
            self.stream(request, client).await.response
        }
    }

    /// The recording of the last turn.
    pub fn recording(&self) -> BundleTurn {
        self.finished.0.lock().unwrap().take().unwrap()
    }

    /// Replays the last turn, without its tools, and checks that nothing differs.
    pub fn check_replay(&self) {
        check_replay_of(&self.recording());
    }
}

/// Replays a recorded turn, without its tools, and checks that nothing differs.
pub fn check_replay_of(recorded: &BundleTurn) {
    let replayed = tokio::task::block_in_place(|| replay(recorded)).unwrap();
    let differences = compare(recorded, &replayed, Scope::Replay);
    assert!(differences.is_empty(), "{differences:#?}");
}

/// A request with one user message and the client's tool `shell`.
pub fn request(items: &Value) -> Value {
    json!({
        "model": "acme/m", "input": items, "prompt_cache_key": "s",
        "tools": [{"type": "function", "name": "shell", "parameters": {"type": "object"}}],
    })
}

/// A history of one user message.
pub fn question() -> Value {
    json!([{"role": "user", "content": "How is the weather?"}])
}

/// The history in a request to the provider: its messages, or its items.
pub fn history(sent: &RecordedRequest) -> Value {
    let sent = sent.json();
    let history = sent.get("messages").or_else(|| sent.get("input"));
    history.cloned().unwrap_or_default()
}

/// A step that calls a tool.
pub fn call(id: &str, name: &str) -> Value {
    call_with(id, name, "weather")
}

/// The same with another argument: equal calls are run once.
pub fn call_with(id: &str, name: &str, q: &str) -> Value {
    let arguments = json!({"q": q}).to_string();
    json!({"call": {"id": id, "name": name, "arguments": arguments, "pieces": 3}})
}

/// A step with token counts.
pub fn usage(input: u64, output: u64) -> Value {
    json!({"usage": {"prompt_tokens": input, "completion_tokens": output}})
}
