//! MCP servers that are programs, which the operator has configured.
use kit::player::PlayerWire;
use serde_json::{Value, json};

use super::{McpClient, kinds, request, start};
use crate::artifacts::in_turns::{offered, result};
use crate::faults::{answer, player};
use crate::proxy::{PROGRAM, Proxy, Setup};
use crate::stored::says;
use crate::web_search::web::call;

fn named(label: &str) -> Value {
    json!({"type": "mcp", "server_label": label, "require_approval": "never"})
}

/// A program that lists a tool, and ends when it is called.
const ENDS_IN_CALLS: &str = r#"
echo x >> starts
about='"capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}'
answer() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
while read -r line; do
  case $line in *'"id":'*) ;; *) continue ;; esac
  id=${line#*'"id":'}
  id=${id%%[!0-9]*}
  case $line in
    *'"initialize"'*) answer '"result":{"protocolVersion":"2025-06-18",'"$about}" ;;
    *'"tools/list"'*) answer '"result":{"tools":[{"name":"look","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) exit ;;
    *) answer '"error":{"code":-32601,"message":"unknown"}' ;;
  esac
done
"#;

/// How often a program has written to the file `starts`.
fn starts(proxy: &Proxy) -> usize {
    let starts = std::fs::read_to_string(proxy.folder.path().join("starts"));
    starts.unwrap().lines().count()
}

/// Promise: An MCP server of the configuration may be a program, which is started when a request
/// names it.
#[kit::test(on_each_wire)]
async fn a_program_is_a_server(wire: PlayerWire) {
    for client in McpClient::ALL {
        let player = player(wire).await;
        let setup = Setup::new().tables(&format!(
            "[tools.mcp.servers.own]\ncommand = \"{PROGRAM}\"\nargs = [\"mcp\"]\n\
             env = {{ RESPONDENT_CONFIG = \"./proxy-config.toml\" }}\n\
             allowed_tools = [\"artifact_list\"]"
        ));
        let proxy = start(&player, setup).await;
        player.push(answer(json!([call(
            "c1",
            "own__artifact_list",
            &json!({})
        )])));
        player.push(says("None."));
        let response = client.ask(&proxy, &request("hi", &[named("own")])).await;
        assert_eq!(kinds(&response), ["mcp_list_tools", "mcp_call", "message"]);
        let sent = player.requests();
        assert_eq!(offered(&sent[0]), ["own__artifact_list"]);
        let called = &response["output"][1];
        assert_eq!(called["name"], "artifact_list");
        // Whatever the list says, the program has answered.
        assert!(!result(&sent[1], "c1").contains("connection"), "{called}");
    }
}

/// Promise: A program that ends at once is shown as an error, and is not started again and again.
#[kit::test]
async fn a_program_that_ends_is_not_started_for_ever() {
    let player = player(PlayerWire::Chat).await;
    let setup = Setup::new().tables(
        "[tools.mcp.servers.bad]\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"echo x >> starts\"]\n\
         [tools.mcp.servers.none]\ncommand = \"/nonexistent/program\"",
    );
    let proxy = start(&player, setup).await;
    let mut errors = Vec::new();
    for _ in 0..3 {
        player.push(says("Done."));
        let servers = [named("bad"), named("none")];
        let response = proxy.response(&request("hi", &servers)).await;
        assert_eq!(
            kinds(&response),
            ["mcp_list_tools", "mcp_list_tools", "message"]
        );
        for at in [0, 1] {
            let error = &response["output"][at]["error"];
            errors.push(error.as_str().unwrap().to_owned());
        }
    }
    assert!(errors[0].contains("cannot be reached"), "{errors:?}");
    assert_eq!(errors[4..], errors[..2]);
    assert_eq!(starts(&proxy), 1);
}

/// Promise: A program that ends again and again while its tools are called is started at most five
/// times a minute.
#[kit::test]
async fn a_program_that_ends_in_calls_is_not_started_for_ever() {
    let player = player(PlayerWire::Chat).await;
    let setup = Setup::new().tables(&format!(
        "[tools.mcp.servers.own]\ncommand = \"/bin/sh\"\nargs = [\"-c\", '''{ENDS_IN_CALLS}''']"
    ));
    let proxy = start(&player, setup).await;
    let mut error = Value::Null;
    for _ in 0..12 {
        player.push(answer(json!([call("c1", "own__look", &json!({}))])));
        player.push(says("It failed."));
        let response = proxy.response(&request("hi", &[named("own")])).await;
        error = response["output"][1]["error"].clone();
        assert_eq!(error["code"], -32_000, "{response}");
    }
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("has ended too often"), "{message}");
    assert_eq!(starts(&proxy), 5);
}
