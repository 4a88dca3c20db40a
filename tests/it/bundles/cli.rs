//! `respondent bundle` and `respondent replay`, with and without a running server.
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use kit::player::{Player, PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::corpus::bundle_files::BundleFiles;
use crate::faults::{answer, body, player};
use crate::proxy::{Proxy, Reply, Setup, streaming};

/// Exit code and output of a command.
#[derive(Debug)]
pub struct End {
    code: i32,
    out: String,
    err: String,
}

impl End {
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// Checks the exit code and that standard output is empty; returns the error text.
    #[track_caller]
    fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.out.is_empty(), "{self:?}");
        self.err
    }
}

/// Runs a command in this folder.
async fn run_in(folder: &Path, setup: &Setup, args: &str) -> End {
    let setup = args.split(' ').fold(setup.clone(), Setup::arg);
    let (code, out, err) = setup.run(folder).await;
    End { code, out, err }
}

/// Runs a command in the folder of a running server, with its configuration.
pub async fn run(proxy: &Proxy, args: &str) -> End {
    let args: Vec<&str> = args.split(' ').collect();
    let (code, out, err) = proxy.run_command(&Setup::new(), &args).await;
    End { code, out, err }
}

fn setup() -> Setup {
    Setup::new().server("data_dir = \"data\"")
}

async fn server() -> (Player, Proxy) {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start_with(&player, setup()).await;
    (player, proxy)
}

/// Runs a turn that succeeds.
async fn good(player: &Player, proxy: &Proxy) -> Reply {
    player.push(answer(json!([{"text": "well said"}])));
    let reply = proxy.post(&streaming(&body())).await;
    reply.stream();
    reply
}

/// Runs a turn that fails.
async fn bad(player: &Player, proxy: &Proxy) -> Reply {
    player.push(ScriptedAnswer::error(400, "the provider says no"));
    let reply = proxy.post(&body()).await;
    reply.error(400);
    reply
}

fn request_id(reply: &Reply) -> String {
    reply.header("x-request-id").unwrap().to_owned()
}

/// The names of the files in a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains(".tar.zst"))
        .collect();
    names.sort();
    names
}

#[kit::test]
async fn a_failed_turn_is_bundled_shown_and_replayed() {
    let (player, proxy) = server().await;
    let failed = request_id(&bad(&player, &proxy).await);
    good(&player, &proxy).await;
    let name = format!("respondent-{failed}.tar.zst");
    let output = run(&proxy, "bundle create").await.ok();
    assert!(
        output.contains(&format!("\nWrote {name}: 1 turn, ")),
        "{output}"
    );
    assert!(output.contains("`respondent replay`"), "{output}");
    assert!(output.contains("prompts"), "{output}");
    assert_eq!(files(proxy.folder.path()), std::slice::from_ref(&name));
    let shown = run(&proxy, &format!("bundle show {name}")).await.ok();
    assert!(shown.contains(&failed), "{shown}");
    assert!(shown.contains("the provider says no"), "{shown}");
    let replayed = run(&proxy, &format!("replay {name}")).await.ok();
    assert!(replayed.contains("equal"), "{replayed}");
    assert_eq!(player.requests().len(), 2, "a replay went to the provider");
}

#[kit::test]
async fn a_background_response_that_failed_is_replayed_with_the_same_events() {
    let (player, proxy) = server().await;
    let mut body = body();
    body["background"] = json!(true);
    body["stream"] = json!(true);
    player.push(answer(json!([{"text": "begun"}, {"cut": "fin"}])));
    let reply = proxy.post(&body).await;
    let stream = reply.stream();
    assert_eq!(stream.response["status"], "failed");
    let asked = player.requests().len();
    run(&proxy, "bundle create --output a.tar.zst").await.ok();
    let replayed = run(&proxy, "replay a.tar.zst --events").await.ok();
    assert!(replayed.contains(": equal"), "{replayed}");
    // What is printed of a run is the response with which its last event ends.
    let printed = replayed.lines().find(|line| line.starts_with('{'));
    let printed: Value = serde_json::from_str(printed.unwrap()).unwrap();
    assert_eq!(printed, stream.response);
    assert_eq!(
        player.requests().len(),
        asked,
        "a replay went to the provider"
    );
}

#[kit::test]
async fn a_bundle_is_written_once_for_its_owner() {
    let (player, proxy) = server().await;
    bad(&player, &proxy).await;
    run(&proxy, "bundle create --output a.tar.zst").await.ok();
    let path = proxy.folder.path().join("a.tar.zst");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = std::fs::read(&path).unwrap();
    good(&player, &proxy).await;
    let error = run(&proxy, "bundle create --last --output a.tar.zst")
        .await
        .fails(1);
    assert!(error.contains("a.tar.zst already exists"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[kit::test]
async fn turns_are_selected() {
    let (player, proxy) = server().await;
    let good = good(&player, &proxy).await;
    let response = good.stream().response["id"].as_str().unwrap().to_owned();
    let good = request_id(&good);
    let bad = request_id(&bad(&player, &proxy).await);
    for (flags, requests) in [
        ("", vec![&bad]),
        (" --last", vec![&bad]),
        (&format!(" --request {good}"), vec![&good]),
        (&format!(" --response {response}"), vec![&good]),
        (&format!(" --request {}", &good[..20]), vec![&good]),
        (&format!(" --response {}", short(&response)), vec![&good]),
        (" --since 1h", vec![&good, &bad]),
    ] {
        run(&proxy, &format!("bundle create --output b.tar.zst{flags}"))
            .await
            .ok();
        let shown = run(&proxy, "bundle show b.tar.zst").await.ok();
        for request in [&good, &bad] {
            assert_eq!(
                shown.contains(request.as_str()),
                requests.contains(&request),
                "{flags}: {shown}"
            );
        }
        std::fs::remove_file(proxy.folder.path().join("b.tar.zst")).unwrap();
    }
    let output = run(&proxy, "bundle create --since 60m").await.ok();
    assert!(
        output.contains("respondent-since-1h.tar.zst: 2 turns"),
        "{output}"
    );
}

/// The characters of an id that a list shows.
fn short(id: &str) -> &str {
    let (_, random) = id.split_once('_').unwrap();
    &random[..8]
}

#[kit::test]
async fn the_beginning_of_several_ids_selects_none_of_them() {
    let (player, proxy) = server().await;
    let good = request_id(&good(&player, &proxy).await);
    let bad = request_id(&bad(&player, &proxy).await);
    let error = run(&proxy, "bundle create --request req_").await.fails(1);
    assert!(error.contains("several ids begin with req_"), "{error}");
    for id in [&good, &bad] {
        assert!(error.contains(short(id)), "{error}");
    }
    assert!(files(proxy.folder.path()).is_empty());
}

#[kit::test]
async fn a_missing_turn_is_reported_with_the_turns_there_are() {
    let (player, proxy) = server().await;
    let error = run(&proxy, "bundle create").await.fails(1);
    assert!(
        error.contains("no turns are recorded since the server started at "),
        "{error}"
    );
    good(&player, &proxy).await;
    let error = run(&proxy, "bundle create").await.fails(1);
    assert!(error.contains("no turn has failed since"), "{error}");
    assert!(error.contains("--last takes the newest"), "{error}");
    let error = run(&proxy, "bundle create --response resp_none")
        .await
        .fails(1);
    assert!(
        error.contains("no turn with the response resp_none"),
        "{error}"
    );
    assert!(error.contains("respondent bundle list"), "{error}");
    assert!(files(proxy.folder.path()).is_empty());
}

#[kit::test]
async fn the_list_shows_the_turns() {
    let (player, proxy) = server().await;
    let good = request_id(&good(&player, &proxy).await);
    let bad = request_id(&bad(&player, &proxy).await);
    let list = run(&proxy, "bundle list").await.ok();
    let rows: Vec<&str> = list.lines().skip(1).collect();
    let [first, second] = rows.as_slice() else {
        panic!("{list}")
    };
    for (row, id, outcome) in [(first, &bad, "failed"), (second, &good, "completed")] {
        assert!(row.contains(short(id)), "{list}");
        assert!(row.contains(outcome), "{list}");
        assert!(row.contains("up/m"), "{list}");
    }
    let newest = run(&proxy, "bundle list --limit 1").await.ok();
    assert!(
        newest.contains(short(&bad)) && !newest.contains(short(&good)),
        "{newest}"
    );
    assert!(
        newest.ends_with("1 older turn is not shown: --all shows it.\n"),
        "{newest}"
    );
    let all = run(&proxy, "bundle list --all").await.ok();
    assert_eq!(all.lines().count(), list.lines().count(), "{all}");
    let json = run(&proxy, "bundle list --json").await.ok();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["turns"][0]["request_id"], bad.as_str());
    assert_eq!(json["turns"][0]["failed"], true);
    assert!(!json.to_string().contains("well said"));
}

#[kit::test]
async fn a_servers_token_is_required() {
    let player = player(PlayerWire::Chat).await;
    let locked = setup().server("token_env = \"GATE\"");
    let with = |token: &str| locked.clone().env("GATE", token);
    let proxy = Proxy::start_with(&player, with("open-sesame")).await;
    let address = proxy.address.to_string();
    let folder = proxy.folder.path();
    let list = |setup: Setup| setup.arg("--listen").arg(&address);
    let right = run_in(folder, &list(with("open-sesame")), "bundle list").await;
    assert!(right.ok().contains("No turn"));
    let wrong = run_in(folder, &list(with("close-sesame")), "bundle list").await;
    let error = wrong.fails(1);
    assert!(error.contains("does not take the token"), "{error}");
    assert!(!error.contains("sesame"), "{error}");
    let elsewhere = setup().folder("http://127.0.0.1:1");
    let none = run_in(elsewhere.path(), &list(setup()), "bundle create").await;
    let error = none.fails(1);
    assert!(error.contains("token_env or token_file"), "{error}");
}

#[kit::test]
async fn strangers_get_no_turns() {
    let (player, proxy) = server().await;
    bad(&player, &proxy).await;
    let host = proxy.address.to_string();
    for path in ["/diagnostics/turns", "/diagnostics/bundle"] {
        for (headers, code) in [
            ("Host: evil.example\r\n".to_owned(), "host_not_allowed"),
            (
                format!("Host: {host}\r\nOrigin: http://evil.example\r\n"),
                "origin_not_allowed",
            ),
        ] {
            let mut stream = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
            let head = format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            let answer = String::from_utf8(answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
            assert!(answer.contains(code), "{answer}");
        }
    }
}

#[kit::test]
async fn a_bad_query_names_its_parameter() {
    let (_player, proxy) = server().await;
    for (query, param) in [
        ("select=all", "select"),
        ("select=response:..%2fx", "select"),
        ("images=yes", "images"),
    ] {
        let reply = proxy.get(&format!("/diagnostics/bundle?{query}")).await;
        assert_eq!(reply.error(400)["param"], param);
    }
    let reply = proxy.get("/diagnostics/bundle").await;
    assert_eq!(reply.error(404)["code"], "turn_not_found");
}

#[kit::test]
async fn without_a_server_the_folder_is_read() {
    let (player, mut proxy) = server().await;
    let first = request_id(&bad(&player, &proxy).await);
    let second = request_id(&bad(&player, &proxy).await);
    good(&player, &proxy).await;
    proxy.terminate();
    proxy.wait_for_exit().await;
    let list = run(&proxy, "bundle list").await.ok();
    assert!(list.starts_with("No server runs on "), "{list}");
    let place = |id: &String| list.find(&id.trim_start_matches("req_")[..8]);
    assert!(place(&second).unwrap() < place(&first).unwrap(), "{list}");
    let output = run(&proxy, "bundle create").await.ok();
    assert!(output.starts_with("No server runs on "), "{output}");
    assert!(
        output.contains(&format!("respondent-{second}.tar.zst")),
        "{output}"
    );
    let asked = format!("bundle create --request {first} --output a.tar.zst");
    run(&proxy, &asked).await.ok();
    let shown = run(&proxy, "bundle show a.tar.zst").await.ok();
    assert!(
        shown.contains(&first) && !shown.contains(&second),
        "{shown}"
    );
    let asked = "bundle create --since 1h --output b.tar.zst";
    assert!(run(&proxy, asked).await.ok().contains(": 2 turns"));
    let error = run(&proxy, "bundle create --response resp_none")
        .await
        .fails(1);
    assert!(error.contains("2 turns are recorded"), "{error}");
}

/// Promise: `respondent bundle create` takes the newest turn of an agent that failed before a newer
/// request that somebody has mistyped, and says which one it took.
#[kit::test]
async fn a_mistyped_request_is_no_failed_turn_of_an_agent() {
    let (player, proxy) = server().await;
    let mistyped = || async { request_id(&proxy.post_bytes("{", &[]).await) };
    let refused = mistyped().await;
    let output = run(&proxy, "bundle create --output a.tar.zst").await.ok();
    assert!(
        output.contains("no turn of an agent has failed"),
        "{output}"
    );
    assert!(output.contains(short(&refused)), "{output}");
    let failed = request_id(&bad(&player, &proxy).await);
    mistyped().await;
    let output = run(&proxy, "bundle create").await.ok();
    assert!(
        output.contains("This is the newest turn that failed: "),
        "{output}"
    );
    assert!(
        output.contains(&format!("up/m, request {}.", short(&failed))),
        "{output}"
    );
    assert!(
        output.contains(&format!("respondent-{failed}.tar.zst")),
        "{output}"
    );
}

/// Promise: What a client alone got wrong is not written to disk.
#[kit::test]
async fn mistakes_of_the_client_are_not_kept() {
    let (player, mut proxy) = server().await;
    let reference = json!({"model": "m", "input": [{"type": "item_reference", "id": "msg_gone"}]});
    proxy.post(&reference).await.error(400);
    proxy.post_bytes("{", &[]).await.error(400);
    let failed = request_id(&bad(&player, &proxy).await);
    proxy.terminate();
    proxy.wait_for_exit().await;
    let kept = files(&proxy.folder.path().join("data/bundles"));
    assert_eq!(kept.len(), 1, "{kept:?}");
    let list = run(&proxy, "bundle list").await.ok();
    assert!(list.contains(&failed[4..12]), "{list}");
}

#[kit::test]
async fn another_program_is_not_mistaken_for_a_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            let _ = stream.write_all(answer).await;
            let _ = stream.read(&mut [0; 4096]).await;
        }
    });
    let setup = setup().arg("--listen").arg(&address.to_string());
    let folder = setup.folder("http://127.0.0.1:1");
    let error = run_in(folder.path(), &setup, "bundle create")
        .await
        .fails(1);
    assert!(error.contains("which is not Respondent"), "{error}");
}

#[kit::test]
async fn a_file_that_is_no_bundle_is_refused() {
    let setup = setup();
    let folder = setup.folder("http://127.0.0.1:1");
    let folder = folder.path();
    std::fs::write(folder.join("foreign.tar.zst"), b"no bundle at all").unwrap();
    for command in [
        "bundle show foreign.tar.zst",
        "bundle show absent.tar.zst",
        "bundle show .",
        "bundle diff foreign.tar.zst foreign.tar.zst",
        "replay foreign.tar.zst",
    ] {
        let error = run_in(folder, &setup, command).await.fails(65);
        let file = command.split(' ').find(|word| word.contains('.')).unwrap();
        assert!(
            error.starts_with(&format!("respondent: {file}: ")),
            "{error}"
        );
    }
    for usage in [
        "bundle",
        "bundle create --since soon",
        "replay",
        "bundle show",
    ] {
        assert_eq!(run_in(folder, &setup, usage).await.code, 2, "{usage}");
    }
}

#[kit::test]
async fn a_bundle_of_an_earlier_format_is_refused() {
    let (player, proxy) = server().await;
    bad(&player, &proxy).await;
    run(&proxy, "bundle create --output old.tar.zst").await.ok();
    let path = proxy.folder.path().join("old.tar.zst");
    let mut files = BundleFiles::read(&path);
    files.edit_json("bundle.json", |manifest| {
        manifest["version"] = json!(1);
        manifest["made_by"] = json!("0.0.9");
    });
    files.write(&path);
    for command in ["bundle show old.tar.zst", "replay old.tar.zst"] {
        let error = run(&proxy, command).await.fails(65);
        assert!(
            error.contains("use respondent 0.1.0, which reads it"),
            "{error}"
        );
    }
}

/// The provider's answer takes more than a quarter of the memory.
#[kit::test]
async fn a_turn_that_is_too_large_says_so() {
    let player = player(PlayerWire::Chat).await;
    let small = setup().tables("[capture]\nmemory = 400_000");
    let proxy = Proxy::start_with(&player, small).await;
    player.push(answer(json!([{"text": "y".repeat(200_000)}])));
    proxy.post(&streaming(&body())).await.stream();
    run(&proxy, "bundle create --last --output a.tar.zst")
        .await
        .ok();
    let shown = run(&proxy, "bundle show a.tar.zst").await.ok();
    for part in [
        "attempt 1 request: 0 of ",
        "attempt 1 answer: ",
        "answer: 0 of ",
    ] {
        let line = shown.lines().find(|line| line.contains(part));
        assert!(line.unwrap().ends_with(" bytes kept"), "{shown}");
    }
    assert!(
        shown.contains("attempt 1 answer is missing or cut off"),
        "{shown}"
    );
    assert!(shown.contains("no replay: "), "{shown}");
    let error = run(&proxy, "replay a.tar.zst").await.fails(65);
    assert!(error.contains("attempt 1 answer"), "{error}");
}

#[kit::test]
async fn the_exit_code_distinguishes_equal_and_different_turns() {
    let (player, proxy) = server().await;
    bad(&player, &proxy).await;
    run(&proxy, "bundle create --output a.tar.zst").await.ok();
    run(&proxy, "bundle diff a.tar.zst a.tar.zst").await.ok();
    good(&player, &proxy).await;
    run(&proxy, "bundle create --last --output b.tar.zst")
        .await
        .ok();
    let end = run(&proxy, "bundle diff a.tar.zst b.tar.zst").await;
    assert_eq!(end.code, 1, "{end:?}");
    assert!(!end.out.is_empty(), "{end:?}");
    let end = run(&proxy, "replay a.tar.zst --turn 2").await;
    assert!(end.fails(65).contains("there is no turn 2"));
}

#[kit::test]
async fn a_turn_is_sent_to_a_provider_again() {
    let (player, proxy) = server().await;
    let first = request_id(&bad(&player, &proxy).await);
    run(&proxy, "bundle create --output a.tar.zst").await.ok();
    player.push(answer(json!([{"text": "well said"}])));
    let end = run(&proxy, "replay a.tar.zst --live up/m --events").await;
    assert_eq!(end.code, 1, "{end:?}");
    assert!(end.out.contains("outcome: failed -> completed"), "{end:?}");
    assert!(end.out.contains("well said"), "{end:?}");
    assert_eq!(player.requests().len(), 2);
    let error = run(&proxy, "replay a.tar.zst --live nobody/m")
        .await
        .fails(2);
    assert!(error.contains("nobody/m"), "{error}");
    // Several turns are not sent by accident.
    bad(&player, &proxy).await;
    run(&proxy, "bundle create --since 1h --output b.tar.zst")
        .await
        .ok();
    let error = run(&proxy, "replay b.tar.zst --live up/m").await.fails(65);
    assert!(error.contains("--turn"), "{error}");
    assert_eq!(player.requests().len(), 3);
    let offline = run(&proxy, "replay b.tar.zst").await.ok();
    assert_eq!(offline.matches(": equal").count(), 2, "{offline}");
    assert!(offline.contains(&first), "{offline}");
}
