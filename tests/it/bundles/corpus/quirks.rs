//! Turns that a provider refuses for a known reason and that heal: each lesson that a
//! refusal can teach, and the tool loops over every strict provider.
use std::collections::BTreeSet;

use adapters::mend::{Levels, Mend, Parameter};
use kit::player::Player;
use libtest_mimic::Trial;
use registry::{
    CallContent, CallIds, MaxTokensField, ReasoningRequired, ResponseFormat, Set, SystemRole,
};
use serde_json::{Value, json};

use super::keeper::Keeper;
use crate::healing::strict::{Preset, every};
use crate::healing::{poisoned, talk};
use crate::proxy::{CODEX, Setup, streaming};
use crate::trial::case;

mod table;

use table::{Row, rows};

pub fn trials() -> Vec<Trial> {
    vec![
        case("corpus: every lesson", every_lesson),
        case("corpus: every lesson has its refusal", || async {
            complete();
        }),
        case("corpus: strict providers of which nothing is known", || {
            strict("unknown", Preset::unknown)
        }),
        case("corpus: strict providers with their own files", || {
            strict("known", Preset::known)
        }),
    ]
}

/// Each row at two providers of its own: streamed for Codex, and whole for another.
async fn every_lesson() {
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
    let keeper = Keeper::at("http://127.0.0.1:9/v1", setup).await;
    for (place, row) in rows.iter().enumerate() {
        for (way, headers) in [("codex", CODEX), ("other", &[])] {
            let mut asked = Vec::new();
            for turn in &row.turns {
                let mut body = turn.clone();
                body["model"] = json!(format!("{}/m", id(place, way)));
                let input = body["input"].as_array_mut().unwrap();
                input.splice(1..1, std::mem::take(&mut asked));
                // Calls alone are never streamed where they cannot be.
                if way == "codex" {
                    body = streaming(&body);
                }
                let reply = keeper.turn(&body, headers).await;
                assert_eq!(reply.status, 200, "{}: {reply:?}", row.lesson);
                let response = if way == "codex" {
                    reply.stream_for_codex().response
                } else {
                    kit::strict::check_response_or_panic(&reply.body)
                };
                assert_eq!(response["status"], "completed", "{}", row.lesson);
                asked.clone_from(response["output"].as_array().unwrap());
            }
        }
    }
    let turns = keeper.replays("lessons").await;
    for (place, row) in rows.iter().enumerate() {
        for way in ["codex", "other"] {
            let route = format!("{}/m", id(place, way));
            let learned: Vec<String> = turns
                .turns()
                .filter(|turn| turn["outcome"] == "completed")
                .flat_map(|turn| turn["attempts"].as_array().unwrap().clone())
                .filter(|attempt| attempt["route"] == *route)
                .filter_map(|attempt| name(&attempt["fault"]["mend"]))
                .collect();
            assert_eq!(learned, [row.lesson], "{route}");
        }
    }
}

fn id(place: usize, way: &str) -> String {
    format!("row{place}_{way}")
}

/// A tool loop and a history that nobody takes, at every strict provider.
async fn strict(name: &str, define: fn(&Preset, &str) -> (String, String)) {
    let (setup, models, _players) = every(define).await;
    let keeper = Keeper::at("http://127.0.0.1:9/v1", setup).await;
    for model in &models {
        let turns = talk(&keeper.proxy, model).await;
        poisoned(&keeper.proxy, model).await;
        keeper.add(turns + 1);
    }
    keeper.replays(&format!("strict-{name}")).await;
}

/// The name of a lesson as a bundle has it; that of a parameter with it.
fn name(mend: &Value) -> Option<String> {
    match mend {
        Value::String(name) => Some(name.clone()),
        Value::Object(mend) => {
            let (name, what) = mend.iter().next()?;
            let what = what.as_str().filter(|_| name == "without");
            Some(what.map_or_else(|| name.clone(), |what| format!("{name} {what}")))
        }
        _ => None,
    }
}

/// One of each; what a lesson says besides is its own tests' matter.
fn lessons() -> Vec<Mend> {
    let parameters = [
        Parameter::Penalties,
        Parameter::Logprobs,
        Parameter::ParallelToolCalls,
        Parameter::Strict,
        Parameter::StreamOptions,
        Parameter::PromptCacheKey,
        Parameter::CacheControl,
        Parameter::ServiceTier,
        Parameter::Verbosity,
    ];
    let mut lessons = vec![
        Mend::Window(8_192),
        Mend::MaxOutput(8_192),
        Mend::MaxTokensField(MaxTokensField::MaxTokens),
        Mend::Reasoning(ReasoningRequired::Calls),
        Mend::NoReasoning,
        Mend::Signatures,
        Mend::NoSignatures,
        Mend::Efforts(Levels::among(&["low"]).unwrap()),
        Mend::NoEffort,
        Mend::NoThinkingSwitch,
        Mend::NoSampling,
        Mend::MaxTemperature(100),
        Mend::WithoutToolChoice(Set::none()),
        Mend::ResponseFormat(ResponseFormat::None),
        Mend::SystemRole(SystemRole::User),
        Mend::SystemFirst,
        Mend::AnswerAfterTool,
        Mend::MergeUser,
        Mend::NoImages,
        Mend::NoImageUrls,
        Mend::ImageNeedsText,
        Mend::NoFiles,
        Mend::CallContent(CallContent::Empty),
        Mend::CallIds(CallIds::Word),
        Mend::ToolNames,
        Mend::Schema(Set::none()),
        Mend::WholeCalls,
    ];
    lessons.extend(parameters.map(Mend::Without));
    lessons
}

/// A lesson that is added to the program belongs to [`lessons`] as well.
fn is_listed(lesson: Mend) {
    match lesson {
        Mend::Window(_)
        | Mend::MaxOutput(_)
        | Mend::MaxTokensField(_)
        | Mend::Reasoning(_)
        | Mend::NoReasoning
        | Mend::Signatures
        | Mend::NoSignatures
        | Mend::Efforts(_)
        | Mend::NoEffort
        | Mend::NoThinkingSwitch
        | Mend::NoSampling
        | Mend::MaxTemperature(_)
        | Mend::WithoutToolChoice(_)
        | Mend::ResponseFormat(_)
        | Mend::SystemRole(_)
        | Mend::SystemFirst
        | Mend::AnswerAfterTool
        | Mend::MergeUser
        | Mend::NoImages
        | Mend::NoImageUrls
        | Mend::ImageNeedsText
        | Mend::NoFiles
        | Mend::CallContent(_)
        | Mend::CallIds(_)
        | Mend::ToolNames
        | Mend::Schema(_)
        | Mend::WholeCalls => {}
        Mend::Without(parameter) => match parameter {
            Parameter::Penalties
            | Parameter::Logprobs
            | Parameter::ParallelToolCalls
            | Parameter::Strict
            | Parameter::StreamOptions
            | Parameter::PromptCacheKey
            | Parameter::CacheControl
            | Parameter::ServiceTier
            | Parameter::Verbosity => {}
        },
    }
}

fn complete() {
    let lessons = lessons();
    lessons.iter().copied().for_each(is_listed);
    let all: BTreeSet<String> = lessons
        .iter()
        .filter_map(|lesson| name(&serde_json::to_value(lesson).unwrap()))
        .collect();
    let taught: BTreeSet<String> = rows().iter().map(|row| row.lesson.to_owned()).collect();
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
            "[providers.{id}]\nwire = \"chat\"\nbase_url = \"{}\"\nkey_required = false\n{models}\nquirks = {{ {} }}\n",
            player.base_url(),
            self.quirks
        )
    }
}
