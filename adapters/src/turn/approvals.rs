//! Calls of MCP tools that need the approval of a person: the model's call is an
//! `mcp_approval_request`, a later request of the client has an `mcp_approval_response`, and the
//! answer to that begins with the `mcp_call`.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::{Item, ItemKind, Turn};
use crate::fault::Fault;
use crate::json;
use crate::members::Members;

/// The code of the fault of an approval of what nobody has asked for, or asks for no more.
pub const APPROVAL_NOT_FOUND: &str = "mcp_approval_request_not_found";

/// A call that needs the approval of a person. Made when the model asks for it, and again when a
/// turn begins whose history approves it and has no result of it: then it runs before the model is
/// asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalCall {
    /// The id of the item that asked for the approval, which is the call id as well.
    pub id: String,
    /// The name of the server.
    pub server_label: String,
    /// The name of the tool on that server.
    pub name: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
}

impl Turn<'_> {
    /// Refuses an answer to a request for an approval that does not say which one it answers, or
    /// how.
    pub fn check_approvals(&self) -> Result<(), Fault> {
        for (index, item) in self.items.iter().enumerate() {
            if item.type_name() != "mcp_approval_response" {
                continue;
            }
            let (id, approve) = (item.fields.approval_request_id, item.fields.approve);
            let is_text = id.is_some_and(|raw| raw.get().starts_with('"'));
            let is_bool = approve.is_some_and(|raw| ["true", "false"].contains(&raw.get()));
            for (field, raw, fits, expected) in [
                ("approval_request_id", id, is_text, "a string"),
                ("approve", approve, is_bool, "true or false"),
            ] {
                if fits {
                    continue;
                }
                let param = format!("input[{index}].{field}");
                if raw.is_none() {
                    return Err(Fault::missing(param));
                }
                let message = format!("'{param}' must be {expected}.");
                return Err(Fault::invalid(param, message));
            }
        }
        Ok(())
    }

    /// The approved calls that have no result, in the order in which they were approved. An error
    /// is an approval of what the history does not have.
    pub fn approved_calls(&self) -> Result<Vec<ApprovalCall>, Fault> {
        let approvals = self.items.iter();
        let mut approvals = approvals
            .filter(|item| item.kind == ItemKind::McpApproval)
            .peekable();
        if approvals.peek().is_none() {
            return Ok(Vec::new());
        }
        let results = self.results().into_iter();
        let mut settled: HashSet<String> = results.map(|(_, id)| id).collect();
        let mut approved = Vec::new();
        for id in approvals.filter_map(Item::explicit_call_id) {
            let id = id.into_owned();
            if !settled.insert(id.clone()) {
                continue;
            }
            let is_request = |item: &&Item<'_>| {
                item.kind == ItemKind::McpApprovalRequest
                    && item.id().is_some_and(|own| own == id.as_str())
            };
            let request = self.items.iter().find(is_request);
            let Some(request) = request else {
                let message = format!(
                    "No 'mcp_approval_request' with the id '{id}' is in the input, or in what it continues: send it before the 'mcp_approval_response'."
                );
                let fault = Fault::invalid("input", message);
                return Err(fault.with_code(APPROVAL_NOT_FOUND));
            };
            approved.push(ApprovalCall::new(id, request));
        }
        Ok(approved)
    }

    /// The ids of the calls that a person has refused.
    pub fn refused_calls(&self) -> Vec<String> {
        let items = self.items.iter();
        let refused = items.filter(|item| item.kind == ItemKind::McpDenial);
        let ids = refused.filter_map(Item::explicit_call_id);
        ids.map(Into::into).collect()
    }
}

impl ApprovalCall {
    fn new(id: String, request: &Item<'_>) -> Self {
        let members = request.raw().and_then(Members::read).unwrap_or_default();
        let text = |name: &str| members.text(name).unwrap_or_default().into_owned();
        let arguments = request.arguments().map(RawValue::get).unwrap_or_default();
        let arguments = json::unquote(arguments).map_or_else(
            || arguments.to_owned(),
            |text| json::unescape(text).into_owned(),
        );
        Self {
            id,
            server_label: text("server_label"),
            name: text("name"),
            arguments,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::responses::request::TurnSource;

    fn request(id: &str) -> Value {
        json!({
            "type": "mcp_approval_request", "id": id, "server_label": "docs", "name": "remove",
            "arguments": r#"{"q":"\u00e9"}"#,
        })
    }

    fn response(id: &str, approve: bool) -> Value {
        json!({"type": "mcp_approval_response", "approval_request_id": id, "approve": approve})
    }

    fn result(id: &str) -> Value {
        json!({
            "type": "mcp_call", "id": "mcp_9", "server_label": "docs", "name": "remove",
            "arguments": "{}", "output": "done", "error": null, "approval_request_id": id,
        })
    }

    /// The calls that run, and those that were refused.
    fn of(input: &Value) -> (Result<Vec<String>, String>, Vec<String>) {
        let source = TurnSource::new(json!({"model": "m", "input": input}).to_string());
        let turn = source.turn().unwrap();
        let approved = turn.approved_calls();
        let approved = approved.map(|calls| calls.into_iter().map(|call| call.id).collect());
        (
            approved.map_err(|fault| fault.code().unwrap_or_default().to_owned()),
            turn.refused_calls(),
        )
    }

    #[test]
    fn only_what_was_approved_and_has_no_result_runs() {
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        for (input, approved, refused) in [
            (json!([request("a")]), ids(&[]), ids(&[])),
            (
                json!([request("a"), response("a", true)]),
                ids(&["a"]),
                ids(&[]),
            ),
            (
                json!([request("a"), response("a", false)]),
                ids(&[]),
                ids(&["a"]),
            ),
            (
                json!([request("a"), response("a", true), response("a", true)]),
                ids(&["a"]),
                ids(&[]),
            ),
            (
                json!([request("a"), response("a", false), response("a", true)]),
                ids(&[]),
                ids(&["a"]),
            ),
            (
                json!([request("a"), response("a", true), result("a")]),
                ids(&[]),
                ids(&[]),
            ),
            (
                json!([
                    request("a"),
                    request("b"),
                    response("b", true),
                    response("a", true)
                ]),
                ids(&["b", "a"]),
                ids(&[]),
            ),
        ] {
            assert_eq!(of(&input), (Ok(approved), refused), "{input}");
        }
        let unknown = of(&json!([request("a"), response("b", true)])).0;
        assert_eq!(unknown.unwrap_err(), "mcp_approval_request_not_found");
    }

    #[test]
    fn a_call_is_read_as_the_model_wrote_it() {
        let input = json!([request("a"), response("a", true)]);
        let source = TurnSource::new(json!({"model": "m", "input": input}).to_string());
        let expected = ApprovalCall {
            id: "a".to_owned(),
            server_label: "docs".to_owned(),
            name: "remove".to_owned(),
            arguments: r#"{"q":"\u00e9"}"#.to_owned(),
        };
        assert_eq!(source.turn().unwrap().approved_calls(), Ok(vec![expected]));
    }

    #[test]
    fn mistakes_in_an_approval_name_their_field() {
        for (item, param) in [
            (json!({"approve": true}), "input[1].approval_request_id"),
            (
                json!({"approval_request_id": 1, "approve": true}),
                "input[1].approval_request_id",
            ),
            (json!({"approval_request_id": "a"}), "input[1].approve"),
            (
                json!({"approval_request_id": "a", "approve": "yes"}),
                "input[1].approve",
            ),
        ] {
            let mut item = item;
            item["type"] = "mcp_approval_response".into();
            let body = json!({"model": "m", "input": [request("a"), item]}).to_string();
            let source = TurnSource::new(body);
            let fault = source.turn().unwrap().check_approvals().unwrap_err();
            assert_eq!(fault.param.as_deref(), Some(param), "{item}");
        }
    }
}
