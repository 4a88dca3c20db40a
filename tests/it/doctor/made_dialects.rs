//! Providers made for this, each a file of `fixtures/dialects`: the doctor writes a file on which a
//! tool loop runs without a refusal.
use std::fs;

use kit::player::{Player, PlayerScript};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{UNUSED_URL, check, doctor, refusals, written};
use crate::adapting::run_tool_loop;
use crate::adapting::strict::tool_loop_answers;
use crate::literals::root;
use crate::proxy::{Proxy, Setup};

/// The key of every provider that wants one.
const KEY: &str = "the-key-of-a-made-up-lab-7";

const MAX_REQUESTS: usize = 12;

/// This part of the providers has to be understood, in percent.
const UNDERSTOOD: usize = 95;

/// How many providers are measured at once.
const AT_ONCE: usize = 4;

/// A provider, and what the file of the doctor should say.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MadeDialect {
    /// What a user gives: the end of the address, and the model if it is not to be found.
    url: String,
    model: Option<String>,
    /// How the server behaves, without its answers.
    script: Value,
    expected: ExpectedFile,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedFile {
    wire: String,
    model: String,
    base_path: String,
    key_header: Option<String>,
    key_scheme: Option<String>,
    /// As far as the list of models tells it.
    window: Option<u64>,
    reasoning_replay: Option<String>,
    think_tags: Option<String>,
}

/// Promise: Of 60 providers made for this, which differ in wires, keys, lists of models, forms of
/// reasoning and refusals in many words, 95 % are understood by `respondent doctor` with at most
/// twelve requests: a tool loop runs on its file without a refusal.
#[kit::test]
async fn a_tool_loop_runs_on_the_files_of_made_up_providers() {
    let folder = fs::read_dir(root().join("fixtures/dialects")).unwrap();
    let mut paths: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut failed = Vec::new();
    for some in paths.chunks(AT_ONCE) {
        let runs: Vec<_> = some
            .iter()
            .map(|path| {
                let dialect = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
                (
                    path.file_stem().unwrap().to_owned(),
                    tokio::spawn(MadeDialect::run(dialect)),
                )
            })
            .collect();
        for (name, run) in runs {
            // The panic is told by then.
            if run.await.is_err() {
                failed.push(name);
            }
        }
    }
    let (all, understood) = (paths.len(), paths.len() - failed.len());
    println!("{understood} of {all} providers are understood: {failed:#?}");
    assert!(understood * 100 >= all * UNDERSTOOD, "{failed:#?}");
}

impl MadeDialect {
    async fn run(self) {
        let mut script = self.script;
        let key = script.get("key").cloned();
        script["answers"] = tool_loop_answers(&json!({"id": "call_1"}), None);
        let script: PlayerScript = serde_json::from_value(script).unwrap();
        let player = Player::start(script).await.unwrap();
        let setup = Setup::new().env("LAB_KEY", KEY);
        let folder = setup.folder(UNUSED_URL);
        let url = format!("http://{}{}", player.address(), self.url);
        let mut args = vec!["--url", &url, "--provider", "lab", "--write"];
        if key.is_some() {
            args.extend(["--key-env", "LAB_KEY"]);
        }
        if let Some(model) = &self.model {
            args.extend(["--model", model]);
        }
        let (code, report) = doctor(&setup, folder.path(), &args).await;
        let told = || format!("{args:?}\n{}\n{report:#}", refusals(&player));
        assert_eq!(code, 0, "{}", told());
        let measured = player.requests().len();
        assert!(measured <= MAX_REQUESTS, "{measured} requests: {}", told());

        let file = written(folder.path(), "lab");
        let text = |name: &str| file.get(name)?.as_str().map(str::to_owned);
        let quirk = |name: &str| file.get("quirks")?.get(name)?.as_str().map(str::to_owned);
        let expected = self.expected;
        let base_url = format!("http://{}{}", player.address(), expected.base_path);
        assert_eq!(text("wire"), Some(expected.wire), "{}", told());
        assert_eq!(text("base_url"), Some(base_url), "{}", told());
        assert_eq!(text("key_header"), expected.key_header, "{}", told());
        assert_eq!(text("key_scheme"), expected.key_scheme, "{}", told());
        assert_eq!(
            report["providers"][0]["model"],
            expected.model,
            "{}",
            told()
        );
        if let Some(window) = expected.window {
            let found = check(&report, Some(0), "window")["message"].to_string();
            assert!(
                found.starts_with(&format!("\"{window} tokens")),
                "{}",
                told()
            );
        }
        if let Some(replay) = expected.reasoning_replay {
            let found = quirk("reasoning_replay");
            // What the doctor begins with may be left out.
            let found = found.unwrap_or_else(|| "reasoning_content".to_owned());
            assert_eq!(found, replay, "{}", told());
        }
        if expected.think_tags.is_some() {
            assert_eq!(quirk("think_tags"), expected.think_tags, "{}", told());
        }

        let proxy = Proxy::start_in_folder(folder, &setup).await;
        run_tool_loop(&proxy, &format!("lab/{}", expected.model)).await;
        for request in player.requests().split_off(measured) {
            assert!(!request.refused, "{} {file}", request.refusal);
        }
    }
}
