//! Turns that a provider refuses for a known reason and that recover: every quirk that a
//! refusal can teach, and tool loops with every strict provider.
use std::collections::BTreeSet;

use adapters::quirk_patch::{ChatPatch, ModelPatch, Parameter, RelayPatch, SharedPatch};
use kit::player::Player;
use registry::serde_names;
use serde_json::{Value, json};

use super::recording::RecordingProxy;
use crate::adapting::strict::{Preset, start_all};
use crate::adapting::{run_tool_loop, send_broken_history};
use crate::proxy::{CODEX, Setup, streaming};

mod table;

use table::{Row, rows};

/// Runs each row with two providers of its own: streamed for Codex, and not streamed for
/// another caller.
#[kit::test]
async fn every_patch() {
    let rows = rows();
    let mut players = Vec::new();
    let mut setup = Setup::new();
    for (place, row) in rows.iter().enumerate() {
        for way in ["codex", "other"] {
            let player = row.player().await;
            setup = setup.tables(&row.provider(&id(place, way), &player));
            players.push(player);
        }
    }
    let recording = RecordingProxy::start_at("http://127.0.0.1:9/v1", setup).await;
    for (place, row) in rows.iter().enumerate() {
        for (way, headers) in [("codex", CODEX), ("other", &[])] {
            let mut asked = Vec::new();
            for turn in &row.turns {
                let mut body = turn.clone();
                body["model"] = json!(format!("{}/m", id(place, way)));
                let input = body["input"].as_array_mut().unwrap();
                input.splice(1..1, std::mem::take(&mut asked));
                // Not streamed for the other caller, to cover both forms.
                if way == "codex" {
                    body = streaming(&body);
                }
                let reply = recording.turn(&body, headers).await;
                assert_eq!(reply.status, 200, "{}: {reply:?}", row.patch);
                let response = if way == "codex" {
                    reply.stream_for_codex().response
                } else {
                    kit::strict::check_response_or_panic(&reply.body)
                };
                assert_eq!(response["status"], "completed", "{}", row.patch);
                asked.clone_from(response["output"].as_array().unwrap());
            }
        }
    }
    let turns = recording.assert_replays("patches").await;
    for (place, row) in rows.iter().enumerate() {
        for way in ["codex", "other"] {
            let route = format!("{}/m", id(place, way));
            let learned: Vec<String> = turns
                .turns()
                .filter(|turn| turn["outcome"] == "completed")
                .flat_map(|turn| turn["attempts"].as_array().unwrap().clone())
                .filter(|attempt| attempt["route"] == *route)
                .filter_map(|attempt| name(&attempt["fault"]["patch"]))
                .collect();
            let told: &[&str] = if row.has_known_words {
                &[row.patch]
            } else {
                &[]
            };
            assert_eq!(learned, told, "{route}");
        }
    }
}

fn id(place: usize, way: &str) -> String {
    format!("row{place}_{way}")
}

#[kit::test]
async fn strict_providers_of_which_nothing_is_known() {
    strict("unknown", Preset::without_provider_file).await;
}

#[kit::test]
async fn strict_providers_with_their_own_files() {
    strict("known", Preset::with_provider_file).await;
}

/// A tool loop, and a history that breaks every rule, with every strict provider.
async fn strict(name: &str, define: fn(&Preset, &str) -> (String, String)) {
    let (setup, models, _players) = start_all(define).await;
    let recording = RecordingProxy::start_at("http://127.0.0.1:9/v1", setup).await;
    for model in &models {
        let turns = run_tool_loop(&recording.proxy, model).await;
        send_broken_history(&recording.proxy, model).await;
        recording.count_turns(turns + 1);
    }
    recording.assert_replays(&format!("strict-{name}")).await;
}

/// The name of a patch in a bundle; for `omit_parameter`, followed by the parameter.
fn name(patch: &Value) -> Option<String> {
    match patch.as_object()?.values().next()? {
        Value::String(name) => Some(name.clone()),
        Value::Object(patch) => {
            let (name, what) = patch.iter().next()?;
            let what = what.as_str().filter(|_| name == "omit_parameter");
            Some(what.map_or_else(|| name.clone(), |what| format!("{name} {what}")))
        }
        _ => None,
    }
}

/// Every quirk patch is in some row, and so is each parameter that can be left out.
#[test]
fn every_patch_has_its_refusal() {
    let patches = [
        serde_names::<ModelPatch>(),
        serde_names::<SharedPatch>(),
        serde_names::<ChatPatch>(),
        serde_names::<RelayPatch>(),
    ];
    let parameters = serde_names::<Parameter>();
    let parameters = parameters
        .iter()
        .map(|name| format!("omit_parameter {name}"));
    let names = patches.concat().into_iter().map(str::to_owned);
    let mut all: BTreeSet<String> = names.chain(parameters).collect();
    assert!(all.remove("omit_parameter"));
    // An answer shows this, and no refusal.
    assert!(all.remove("thinking_unopened"));
    let taught: BTreeSet<String> = rows().iter().map(|row| row.patch.to_owned()).collect();
    assert_eq!(taught, all);
}

impl Row {
    async fn player(&self) -> Player {
        let script = serde_json::from_value(self.script.clone()).unwrap();
        Player::start(script).await.unwrap()
    }

    fn provider(&self, id: &str, player: &Player) -> String {
        let models = if self.model.is_empty() {
            String::new()
        } else {
            format!("models = [{{ id = \"m\", {} }}]", self.model)
        };
        format!(
            "[providers.{id}]\nwire = \"{}\"\nbase_url = \"{}\"\nkey_required = false\n{models}\nquirks = {{ {} }}\n",
            self.wire,
            player.base_url(),
            self.quirks
        )
    }
}
