//! `wf_deep_research`, which comes with the program.
use std::sync::Arc;

use kit::player::PlayerWire;
use respondent::net::memory::ProcessMemory;
use respondent::tools::combined::CombinedTools;
use respondent::tools::live::CallLimits;
use respondent::tools::workflow_agent::WorkflowAgent;
use serde_json::{Value, json};

use super::{provider, run, start, statuses, text};
use crate::rounds::server::{RoundClient, RoundServer};
use crate::web_search::web::{TestWeb, WEATHER};

/// Promise: `wf_deep_research` comes with the program: it plans, searches three times at most,
/// opens four pages at most and writes an answer that cites them. The whole run can be replayed.
#[kit::test]
async fn deep_research_plans_searches_opens_writes_and_cites() {
    for client in [RoundClient::Streaming, RoundClient::Whole] {
        let report = format!("It is [21 degrees]({WEATHER}) in Ulm.");
        let answers = [
            (
                "Write the search queries",
                json!([{"text": "1. ulm weather\n2. ulm rain\n3. long text\n4. too many"}]),
            ),
            ("These pages were found", json!([{"text": report}])),
        ];
        let player = provider(PlayerWire::Chat, &answers).await;
        let web = TestWeb::new();
        let agent = Arc::new(WorkflowAgent::default());
        let limits = CallLimits::default();
        let tools = CombinedTools::new(vec![web.tool(limits), Arc::clone(&agent) as _]);
        let server = RoundServer::with_tools(&[&player], Arc::new(tools), "");
        server.let_nodes_ask(&agent, &ProcessMemory::unlimited());
        let mut request = run("wf_deep_research", &json!({}), "How warm is it in Ulm?");
        request["model"] = json!("acme/m");
        let response = server.answer(&request, client).await;
        assert_eq!(response["status"], "completed", "{response}");
        let expected = [
            "plan completed",
            "search completed",
            "open completed",
            "write completed",
        ];
        assert_eq!(statuses(&response), expected);
        let asked = web.take_asked();
        let searches = asked.iter().filter(|it| it.starts_with("search"));
        assert_eq!(searches.count(), 3, "{asked:?}");
        assert!(asked.len() <= 3 + 4, "{asked:?}");
        assert!(asked.iter().any(|it| it.contains(WEATHER)), "{asked:?}");
        assert_eq!(text(&response), report);
        let last = response["output"].as_array().unwrap().last().unwrap();
        let cited = &last["content"][0]["annotations"][0];
        assert_eq!(cited["url"], WEATHER, "{response}");
        let sent = player.requests();
        assert_eq!(sent.len(), 2);
        assert!(sent[0].body.contains("How warm is it in Ulm?"));
        assert!(sent[1].body.contains("21 degrees"), "{}", sent[1].body);
        server.check_replay();
    }
}

/// Promise: Where no page can be opened, the answer is written from what the searches found.
#[kit::test]
async fn research_goes_on_without_pages() {
    let cites = "It is [21 degrees](https://weather.example/).";
    let answers = [
        ("Write the search queries", json!([{"text": "ulm weather"}])),
        ("These pages were found", json!([{"text": cites}])),
    ];
    let player = provider(PlayerWire::Chat, &answers).await;
    let (proxy, _setup, _engine) = start(&player, &[]).await;
    let request = run("wf_deep_research", &json!({"question": "How warm?"}), "");
    let response = proxy.stream(&request).await.response;
    assert_eq!(response["status"], "completed", "{response}");
    let open = &response["workflow_state"]["nodes"]["open"];
    assert_eq!(open["status"], "failed");
    assert_eq!(response["workflow_state"]["failed_node"], Value::Null);
    let last = response["output"].as_array().unwrap().last().unwrap();
    let cited = &last["content"][0]["annotations"][0]["url"];
    assert_eq!(cited, "https://weather.example/");
}
