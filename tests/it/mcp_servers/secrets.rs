//! What a request gives for its MCP servers goes to them and nowhere else.
use std::path::Path;

use kit::mcp::{McpAnswer, McpPlayer, tool};
use kit::player::PlayerWire;
use serde_json::{Value, json};

use super::{McpClient, allowing, defined, request, start};
use crate::faults::{answer, player};
use crate::stored::says;
use crate::web_search::web::call;

const TOKEN: &str = "canary-token-8c41d9b27f";
const HEADER: &str = "canary-header-52aa0e6d13";

/// The files below a folder that contain a text as it is. What is compressed, such as bundles, is
/// not unpacked.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if let Ok(bytes) = std::fs::read(&path)
            && memchr::memmem::find(&bytes, text.as_bytes()).is_some()
        {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Promise: `authorization` and `headers` of an MCP server to which the proxy connects are sent to
/// that server, and are neither stored nor logged nor recorded, nor repeated in the response, nor
/// sent to a provider. What the
/// server repeats of them is redacted.
#[kit::test(on_each_wire)]
async fn secrets_of_a_request_go_to_its_server_alone(wire: PlayerWire) {
    for client in McpClient::ALL {
        let server = McpPlayer::start(vec![tool("look", true)], |_, arguments| {
            let repeated = format!("You sent {TOKEN} and {HEADER}.");
            match arguments["q"].as_str() {
                Some("refused") => McpAnswer::Error(json!({"code": 1, "message": repeated})),
                Some("failed") => McpAnswer::failure(&repeated),
                _ => McpAnswer::text(&repeated),
            }
        });
        let server = server.await.unwrap();
        let player = player(wire).await;
        let setup = allowing(&[&server])
            .server("log = \"debug\"\ndata_dir = \"data\"")
            .tables("[capture]\nmode = \"all\"");
        let proxy = start(&player, setup).await;
        let calls = ["done", "refused", "failed"];
        let made = calls.map(|q| call(q, "docs__look", &json!({"q": q})));
        player.push(answer(json!(made)));
        player.push(says("Done."));
        let clean = defined("docs", &server);
        let mut named = clean.clone();
        named["authorization"] = json!(TOKEN);
        named["headers"] = json!({"X-Key": HEADER});
        let response = client.ask(&proxy, &request("hi", &[named])).await;
        assert_eq!(response["status"], "completed", "{client:?} {response}");
        assert_eq!(response["tools"], json!([clean]), "{client:?}");
        for asked in server.requests().iter().filter(|it| it.method == "POST") {
            let head = &asked.head;
            assert!(
                head.contains(&format!("authorization: Bearer {TOKEN}")),
                "{head}"
            );
            assert!(head.contains(&format!("x-key: {HEADER}")), "{head}");
        }
        assert_eq!(server.calls().len(), calls.len());
        let mut texts: Vec<String> = player.requests().into_iter().map(|it| it.body).collect();
        texts.push(response.to_string());
        let listed = proxy.get("/diagnostics/turns").await.body;
        texts.push(listed);
        let folder = proxy.folder.path().to_owned();
        for canary in [TOKEN, HEADER] {
            let found = files_with(&folder, canary);
            assert!(found.is_empty(), "{client:?} {canary}: {found:?}");
        }
        texts.push(proxy.whole_log().await);
        for text in texts {
            for canary in [TOKEN, HEADER] {
                assert!(!text.contains(canary), "{client:?}: {text}");
            }
        }
    }
}

/// A token that the operator has configured goes to the server as well.
#[kit::test]
async fn the_token_of_a_configured_server_is_sent() {
    let server = McpPlayer::start(vec![tool("look", true)], |_, _| McpAnswer::text("x"));
    let server = server.await.unwrap();
    let player = player(PlayerWire::Chat).await;
    let setup = crate::proxy::Setup::new()
        .env("DOCS_TOKEN", TOKEN)
        .tables(&format!(
            "[tools.mcp.servers.docs]\nurl = \"{}\"\ntoken_env = \"DOCS_TOKEN\"",
            server.url()
        ));
    let proxy = start(&player, setup).await;
    player.push(says("Done."));
    let named: Value = json!({"type": "mcp", "server_label": "docs", "require_approval": "never"});
    proxy.response(&request("hi", &[named])).await;
    let head = &server.requests()[0].head;
    assert!(
        head.contains(&format!("authorization: Bearer {TOKEN}")),
        "{head}"
    );
}
