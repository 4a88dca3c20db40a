//! Upstreams with the refusals and the dialect of real providers.
use std::fmt::Write as _;
use std::path::Path;

use kit::player::{Player, PlayerScript};
use serde_json::{Value, json};

use crate::proxy::Setup;

/// The content of a file in `fixtures/strict`.
#[derive(Clone)]
pub struct Preset {
    pub name: String,
    provider: String,
    model: String,
    /// The window, if the provider's file lists no models.
    window: Option<u64>,
    call: Value,
    dialect: Value,
    refuse: Value,
}

/// All presets, sorted by name.
pub fn presets() -> Vec<Preset> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/strict");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let content: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let text = |key: &str| content[key].as_str().unwrap().to_owned();
        Preset {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            provider: text("provider"),
            model: text("model"),
            window: content["window"].as_u64(),
            call: content["call"].clone(),
            dialect: content["dialect"].clone(),
            refuse: content["refuse"].clone(),
        }
    };
    paths.iter().map(read).collect()
}

impl Preset {
    /// The upstream. It makes a call, answers its result with text, and then ends the conversation.
    pub async fn player(&self) -> Player {
        let script = json!({
            "dialect": self.dialect, "refuse": self.refuse,
            "answers": tool_loop_answers(&self.call, None),
        });
        let script: PlayerScript = serde_json::from_value(script).unwrap();
        Player::start(script).await.unwrap()
    }

    /// The provider without a provider file: its configuration table and the model to ask for.
    pub fn without_provider_file(&self, base_url: &str) -> (String, String) {
        let id = format!("any_{}", self.name);
        let table = format!(
            "[providers.{id}]\nwire = \"chat\"\nbase_url = \"{base_url}\"\nkey_required = false"
        );
        (table, format!("{id}/m"))
    }

    /// The provider with its own file: its configuration table and the model to ask for.
    pub fn with_provider_file(&self, base_url: &str) -> (String, String) {
        let Self {
            provider, model, ..
        } = self;
        let mut table =
            format!("[providers.{provider}]\nbase_url = \"{base_url}\"\napi_key = \"k\"");
        if let Some(window) = self.window {
            let _ = write!(
                table,
                "\n[[providers.{provider}.models]]\nid = \"{model}\"\nwindow = {window}"
            );
        }
        (table, format!("{provider}/{model}"))
    }

    /// Whether it refuses something that is sent to a provider without a provider file.
    pub fn needs_adaptation(&self) -> bool {
        self.name != "xai"
    }
}

/// The answers of a model that makes a call, answers its result with text, and then ends the
/// conversation. `call` are further keys of the call, `usage` the token counts.
pub fn tool_loop_answers(call: &Value, usage: Option<&Value>) -> Value {
    let mut look = json!({"name": "look", "arguments": "{\"at\": \"the wall\"}", "pieces": 2});
    look.as_object_mut()
        .unwrap()
        .extend(call.as_object().unwrap().clone());
    let steps = |steps: Value| -> Vec<Value> {
        let usage = usage.map(|usage| json!({"usage": usage}));
        steps
            .as_array()
            .unwrap()
            .iter()
            .cloned()
            .chain(usage)
            .collect()
    };
    json!([
        {"repeat": true, "when": {"last_contains": "and now?"}, "steps": steps(json!([{"text": "Done."}]))},
        {"repeat": true, "when": {"last_role": "tool"}, "steps": steps(json!([{"reasoning": "A wall"}, {"text": "Seen."}]))},
        {"repeat": true, "steps": steps(json!([{"reasoning": "I must look."}, {"call": look}]))},
    ])
}

/// Starts a player for every preset. Returns a setup with their tables as `define` writes them,
/// the models to ask for, and the players.
pub async fn start_all(
    define: fn(&Preset, &str) -> (String, String),
) -> (Setup, Vec<String>, Vec<Player>) {
    let mut players = Vec::new();
    let mut models = Vec::new();
    let mut setup = Setup::new();
    for preset in presets() {
        let player = preset.player().await;
        let (table, model) = define(&preset, &player.base_url());
        setup = setup.tables(&table);
        models.push(model);
        players.push(player);
    }
    (setup, models, players)
}
