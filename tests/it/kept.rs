//! The commands about what is stored and about background responses, with a server and without one.

use std::os::unix::fs::PermissionsExt;

use kit::player::{Player, PlayerWire};
use serde_json::{Value, json};

use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};
use crate::status::run_status;

/// What a command prints that succeeds.
async fn output(proxy: &Proxy, setup: &Setup, words: &[&str]) -> String {
    let (code, out, err) = proxy.run_command(setup, words).await;
    assert_eq!(code, 0, "{words:?}: {out}{err}");
    out
}

/// A server with one response.
async fn server_with_response(setup: &Setup) -> (Player, Proxy, String) {
    let player = player(PlayerWire::Chat).await;
    player.push(answer(json!([{"text": "the answer"}])));
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let body = json!({"model": "up/m", "input": "the question"});
    let id = proxy.response(&body).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    (player, proxy, id)
}

/// Promise: `respondent store` counts, checks, copies and exports the database while the server
/// runs; a copy and an export are files that only their owner can read, an import brings back the
/// same responses and conversations or nothing, and a purge leaves no text in any file of the
/// store.
#[kit::test]
async fn the_store_is_counted_checked_copied_and_exported_while_the_server_runs() {
    let setup = Setup::new();
    let (_player, proxy, id) = server_with_response(&setup).await;
    let stats = output(&proxy, &setup, &["store", "stats", "--json"]).await;
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["owners"][0]["responses"], 1, "{stats}");
    let table = output(&proxy, &setup, &["store", "stats"]).await;
    assert!(
        table.contains("local") && table.contains("Files: "),
        "{table}"
    );
    assert!(
        table
            .lines()
            .all(|line| line.starts_with("  in ") || line.len() <= 80),
        "{table}"
    );
    let checked = output(&proxy, &setup, &["store", "check"]).await;
    assert_eq!(checked, "The database is whole.\n");
    let copy = proxy.folder.path().join("copy.db");
    let copy_name = copy.to_str().unwrap();
    output(&proxy, &setup, &["store", "backup", copy_name]).await;
    assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let (code, _, err) = proxy
        .run_command(&setup, &["store", "backup", copy_name])
        .await;
    assert!(code == 1 && err.contains("cannot be written"), "{err}");
    let export = proxy.folder.path().join("all.jsonl");
    let export_name = export.to_str().unwrap();
    let exported = output(&proxy, &setup, &["store", "export", export_name]).await;
    assert_eq!(exported, "Wrote 1 response and 0 conversations.\n");
    assert_eq!(
        export.metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    let text = std::fs::read_to_string(&export).unwrap();
    assert!(
        text.contains(&id) && text.contains("the question"),
        "{text}"
    );
    let (code, _, err) = proxy
        .run_command(&setup, &["store", "import", export_name])
        .await;
    assert!(code == 1 && err.contains("stop it first"), "{err}");
    let elsewhere = proxy.folder.path().join("elsewhere");
    let words = [
        "store",
        "import",
        export_name,
        "--data-dir",
        elsewhere.to_str().unwrap(),
    ];
    assert_eq!(
        output(&proxy, &setup, &words).await,
        "Imported 1 response and 0 conversations.\n"
    );
    let again = output(&proxy, &setup, &words).await;
    assert!(
        again.contains("Skipped 1 whose id already exists."),
        "{again}"
    );
}

#[kit::test]
async fn a_purge_deletes_everything_with_a_server_and_without_one() {
    let setup = Setup::new();
    let (player, mut proxy, id) = server_with_response(&setup).await;
    let (code, _, err) = proxy.run_command(&setup, &["store", "purge"]).await;
    assert!(code == 1 && err.contains("--yes is needed"), "{err}");
    let path = format!("/v1/responses/{id}");
    assert_eq!(proxy.get(&path).await.status, 200);
    output(&proxy, &setup, &["store", "purge", "--yes"]).await;
    assert_eq!(proxy.get(&path).await.status, 404);
    // The server goes on to store.
    player.push(answer(json!([{"text": "again"}])));
    let body = json!({"model": "up/m", "input": "the question"});
    let id = proxy.response(&body).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(proxy.get(&format!("/v1/responses/{id}")).await.status, 200);
    proxy.terminate();
    assert!(proxy.wait_for_exit().await.success());
    output(&proxy, &setup, &["store", "purge", "--yes"]).await;
    let stats = output(&proxy, &setup, &["store", "stats"]).await;
    assert!(stats.contains("Nothing is stored."), "{stats}");
}

/// Begins a background response and returns its id.
async fn begin(proxy: &Proxy) -> String {
    let body = json!({"model": "up/m", "input": "go", "background": true});
    let queued: Value = serde_json::from_str(&proxy.post(&body).await.body).unwrap();
    queued["id"].as_str().unwrap().to_owned()
}

/// Promise: `respondent jobs` lists, shows, follows and cancels background responses by the
/// beginning of their id; status and metrics count those that wait and go on.
#[kit::test]
async fn background_jobs_are_listed_shown_followed_and_cancelled() {
    let setup = Setup::new().tables("[jobs]\nrunning = 1");
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let none = output(&proxy, &setup, &["jobs", "list"]).await;
    assert_eq!(none, "No background response is stored.\n");
    player.push(answer(json!([{"text": "one "}, {"text": "two"}])));
    let id = begin(&proxy).await;
    // The beginning of the id is enough.
    let short = &id["resp_".len()..][..12];
    let text = output(&proxy, &setup, &["jobs", "tail", short]).await;
    assert_eq!(text, "one two\n");
    let listed = output(&proxy, &setup, &["jobs", "list"]).await;
    assert!(
        listed.contains(&short[..8]) && listed.contains("completed"),
        "{listed}"
    );
    let shown: Value =
        serde_json::from_str(&output(&proxy, &setup, &["jobs", "show", short]).await).unwrap();
    assert_eq!(shown["id"], id);
    assert_eq!(shown["status"], "completed");
    let (code, _, err) = proxy.run_command(&setup, &["jobs", "cancel", short]).await;
    assert!(
        code == 1 && err.contains("Cannot cancel a response that is completed."),
        "{err}"
    );
    let (code, _, err) = proxy
        .run_command(&setup, &["jobs", "show", "nothing"])
        .await;
    assert!(code == 1 && err.contains("no background response"), "{err}");
    // One that goes on, because its provider sends no text, and one that waits for it.
    player.push(answer(json!([{"stall": true}])));
    let id = begin(&proxy).await;
    proxy
        .wait_for_metric("respondent_jobs", "state=\"running\"", 1.0)
        .await;
    let waiting = begin(&proxy).await;
    proxy
        .wait_for_metric("respondent_jobs", "state=\"queued\"", 1.0)
        .await;
    let status = run_status(&proxy, &setup, &[]).await;
    assert!(
        status.contains("Background responses: 1 running, 1 queued."),
        "{status}"
    );
    output(&proxy, &setup, &["jobs", "cancel", &waiting]).await;
    let cancelled = output(&proxy, &setup, &["jobs", "cancel", &id]).await;
    assert!(cancelled.ends_with(": cancelled\n"), "{cancelled}");
    let (code, text, _) = proxy.run_command(&setup, &["jobs", "tail", &id]).await;
    assert_eq!((code, &*text), (1, "\n[cancelled]\n"));
    proxy
        .wait_for_metric("respondent_jobs", "state=\"running\"", 0.0)
        .await;
    assert!(
        proxy
            .metric("respondent_stored_responses_total", "result=\"stored\"")
            .await
            >= 2.0
    );
}
