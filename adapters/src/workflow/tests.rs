use serde_json::{Value, json};

use super::*;

/// A workflow with these nodes.
fn definition(nodes: &Value) -> Result<WorkflowDefinition, String> {
    WorkflowDefinition::new(json!({"description": "x", "nodes": nodes}))
}

/// A node that writes.
fn write(id: &str, prompt: &str) -> Value {
    json!({"id": id, "kind": "write", "prompt": prompt})
}

#[test]
fn mistakes_in_a_workflow_are_told() {
    let last = write("z", "p");
    let with = |node: Value| json!([node, last]);
    for (nodes, says) in [
        (json!([]), "it needs 1 to 50 `nodes`"),
        (json!([write("a b", "p")]), "cannot have the id 'a b'"),
        (json!([write("input", "p")]), "cannot have the id 'input'"),
        (
            json!([write("a", "p"), write("a", "p")]),
            "two nodes have the id 'a'",
        ),
        (
            with(json!({"id": "a", "kind": "dance"})),
            "unknown variant `dance`",
        ),
        (
            with(json!({"id": "a", "kind": "write"})),
            "'a' needs `prompt`",
        ),
        (
            with(json!({"id": "a", "kind": "search", "queries": "q", "prompt": "p"})),
            "'a' has `prompt`, which a node of the kind search cannot have",
        ),
        (
            with(json!({"id": "a", "kind": "search", "queries": "q", "max": 11})),
            "a `max` that is not from 1 to 10",
        ),
        (
            with(json!({"id": "a", "kind": "write", "prompt": "p", "needs": ["b"]})),
            "needs 'b', which is not a node",
        ),
        (
            json!([
                {"id": "a", "kind": "write", "prompt": "p", "instructions": "{{b}}"},
                write("b", "p"), last,
            ]),
            "outputs of nodes belong in its `prompt`",
        ),
        (
            with(
                json!({"id": "a", "kind": "agent", "prompt": "p", "tools": [{"type": "mcp", "server_label": "x"}]}),
            ),
            "put a node of the kind approve before it",
        ),
        (
            with(
                json!({"id": "a", "kind": "agent", "prompt": "p", "tools": [{"type": "function", "name": "f"}]}),
            ),
            "a tool of the type 'function'",
        ),
        (
            with(
                json!({"id": "a", "kind": "agent", "prompt": "p", "tools": [{"type": "mcp", "server_label": "x", "require_approval": "never", "authorization": "k"}]}),
            ),
            "has `authorization` in a tool",
        ),
        (
            with(json!({"id": "a", "kind": "agent", "prompt": "p", "max_output_tokens": 0})),
            "is not a valid request",
        ),
        (
            with(json!({"id": "a", "kind": "approve", "question": "q", "optional": true})),
            "cannot be optional",
        ),
        (
            json!([write("a", "{{b}}"), write("b", "{{a}}"), last]),
            "wait for each other in a circle: a, b",
        ),
        (
            json!([write("a", "{{z}}"), last]),
            "'a' needs 'z', which is the last one",
        ),
        (
            json!([{"id": "a", "kind": "search", "queries": "q"}]),
            "must be of the kind write or agent",
        ),
    ] {
        let why = definition(&nodes).unwrap_err();
        assert!(why.contains(says), "{nodes}: {why}");
    }
    let unused = json!({"description": "x", "defaults": {"b": ""}, "nodes": [last]});
    let why = WorkflowDefinition::new(unused).unwrap_err();
    assert!(why.contains("`defaults` has 'b'"), "{why}");
    let other = json!({
        "description": "x", "defaults": {"b": "{{c}}"}, "nodes": [write("z", "{{b}}")],
    });
    let why = WorkflowDefinition::new(other).unwrap_err();
    assert!(why.contains("`defaults` names 'c'"), "{why}");
}

/// Runs what may run, and returns the waves in which the nodes began.
fn waves(definition: &WorkflowDefinition, refused: &str) -> Vec<String> {
    let mut progress = WorkflowProgress::default();
    let mut waves = Vec::new();
    loop {
        while let Some(node) = progress.to_skip(definition).first() {
            waves.push(format!("-{}", node.id));
            progress.put(NodeProgress::begun(node, NodeStatus::Skipped, 1));
        }
        let ready: Vec<WorkflowNode> = progress.ready(definition).into_iter().cloned().collect();
        if ready.is_empty() {
            return waves;
        }
        let ids: Vec<&str> = ready.iter().map(|node| node.id.as_str()).collect();
        waves.push(ids.join(" "));
        for node in ready {
            let status = if node.id == refused {
                NodeStatus::Refused
            } else {
                NodeStatus::Completed
            };
            progress.put(NodeProgress::begun(&node, NodeStatus::Running, 1).ended(status, 2));
        }
    }
}

#[test]
fn nodes_begin_when_what_they_need_has_ended() {
    let definition = definition(&json!([
        write("a", "p"),
        {"id": "ask", "kind": "approve", "question": "{{a}}?"},
        write("b", "{{a}}"),
        {"id": "c", "kind": "write", "prompt": "{{b}}", "needs": ["ask"]},
        write("d", "{{c}}"),
        write("z", "{{b}}"),
    ]))
    .unwrap();
    assert_eq!(waves(&definition, ""), ["a", "ask b", "c", "d"]);
    assert_eq!(waves(&definition, "ask"), ["a", "ask b", "-c", "-d"]);
}

#[test]
fn the_last_node_begins_when_nothing_is_missing() {
    let definition = definition(&json!([
        {"id": "ask", "kind": "approve", "question": "?"},
        {"id": "try", "kind": "agent", "prompt": "p", "optional": true},
        {"id": "z", "kind": "write", "prompt": "p", "needs": ["ask", "try"]},
    ]))
    .unwrap();
    let mut progress = WorkflowProgress::default();
    let put = |progress: &mut WorkflowProgress, at: usize, status: NodeStatus| {
        let begun = NodeProgress::begun(&definition.nodes[at], status, 1);
        let has_ended = !matches!(status, NodeStatus::Running | NodeStatus::AwaitingApproval);
        progress.put(if has_ended {
            begun.ended(status, 2)
        } else {
            begun
        });
    };
    put(&mut progress, 1, NodeStatus::Failed);
    assert_eq!(progress.failed(&definition), None);
    put(&mut progress, 0, NodeStatus::AwaitingApproval);
    assert!(!progress.may_end(&definition));
    let asked = progress.clone();
    progress.ask_again(None);
    assert!(progress.of("ask").is_none());
    progress = asked;
    put(&mut progress, 0, NodeStatus::Refused);
    assert!(!progress.may_end(&definition));
    put(&mut progress, 0, NodeStatus::Failed);
    assert_eq!(
        progress.failed(&definition).map(|node| node.id.as_str()),
        Some("ask")
    );
    put(&mut progress, 0, NodeStatus::Completed);
    assert!(progress.may_end(&definition));
}

#[test]
fn events_have_what_became_of_a_node() {
    let node = definition(&json!([write("z", "p")]))
        .unwrap()
        .nodes
        .remove(0);
    let mut progress = NodeProgress::begun(&node, NodeStatus::Running, 5);
    progress.output = vec!["x".to_owned()];
    let progress = progress.ended(NodeStatus::Completed, 4);
    assert_eq!(progress.ended_at, Some(5), "the clock was set back");
    let json = serde_json::to_string(&progress).unwrap();
    let name = progress.status.event_name();
    let event = format!(r#"{{"type":"{name}","sequence_number":3,"node":{json}}}"#);
    assert_eq!(node_of_event(&event), Some(progress));
    assert_eq!(
        node_of_event(r#"{"type":"response.output_text.delta"}"#),
        None
    );
}

#[test]
fn decisions_are_those_that_the_model_has_not_answered() {
    let asks = json!({"type": "mcp_approval_request", "id": "mcpr_1", "name": "x"});
    let decided = json!({
        "type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": true,
    });
    let asked = json!({"role": "user", "content": "Go on."});
    let called = json!({"type": "mcp_call", "approval_request_id": "mcpr_1"});
    let answered = json!({"role": "assistant", "content": "Done."});
    for (input, found) in [
        (json!([asks, decided]), 1),
        (json!([asked, asks, decided]), 1),
        (json!([asks, decided, called, answered, asked]), 0),
        (json!([asks, decided, answered, asked]), 0),
        (json!("mcp_approval_response"), 0),
    ] {
        let decisions = decisions(&json!({"input": input}).to_string());
        assert_eq!(decisions.approvals.len(), found, "{input}");
        assert_eq!(decisions.prompt, None);
    }
    let again = json!({"input": [decided], "prompt": {"id": "wf_x"}}).to_string();
    assert_eq!(decisions(&again).prompt.as_deref(), Some("wf_x"));
}
