//! The items of a request, as they are stored and listed.

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::fault::Fault;
use crate::members::EditedObject;
use crate::responses::request::TurnSource;
use crate::responses::response_object::item_id;
use crate::turn::{Item, ItemKind};

/// An item of a request, to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnItem {
    /// Its id: the client's, or one that is derived from the response.
    pub id: String,
    /// The item, as the client wrote it, with the id.
    pub json: String,
    /// Identifies this item and all before it, whatever their ids.
    pub prefix: i64,
}

impl TurnSource {
    /// The items that the request itself has, references resolved. The ids of those that have none
    /// are derived from `owner_id`, the id of the response or of another resource that they are
    /// made for.
    pub fn own_items(&self, owner_id: &str) -> Result<Vec<OwnItem>, Fault> {
        let items = self.items_of_body()?;
        let mut hasher = Sha256::new();
        let kept = items
            .iter()
            .filter(|item| item.kind != ItemKind::CompactionTrigger);
        let own = kept.enumerate().map(|(index, item)| {
            let json = json_of(item);
            hasher.update(json.as_bytes());
            hasher.update(b"\n");
            let digest = hasher.clone().finalize();
            let prefix = digest
                .first_chunk()
                .map_or(0, |part| i64::from_le_bytes(*part));
            let (id, json) = with_id(item, json, owner_id, index);
            OwnItem { id, json, prefix }
        });
        Ok(own.collect())
    }
}

/// The items of a list that a client adds to a conversation, with ids as in
/// [`TurnSource::own_items`]. The metadata is checked with them. Faults name the parameter.
pub fn items_to_store(items: &str, metadata: &str, owner_id: &str) -> Result<Vec<OwnItem>, Fault> {
    if !items.trim_start().starts_with('[') {
        let message = "The parameter 'items' must be a list of items.";
        return Err(Fault::invalid("items", message));
    }
    let body = format!(
        "{{\"model\":\"m\",\"instructions\":\"\",\"metadata\":{metadata},\"input\":{items}}}"
    );
    let found = TurnSource::new(body).own_items(owner_id);
    found.map_err(|fault| {
        let param = fault.param.as_deref().unwrap_or("items");
        let param = param.replacen("input", "items", 1);
        let message = fault.message.replacen("input[", "items[", 1);
        Fault {
            param: Some(param.into()),
            message,
            ..fault
        }
    })
}

/// The JSON of an item as the client wrote it; a text becomes a message.
fn json_of(item: &Item<'_>) -> String {
    match (item.raw(), item.plain_text()) {
        (Some(raw), _) => raw.to_owned(),
        (None, Some(text)) => {
            let message = json!({"type": "message", "role": "user", "content": text.decoded()});
            message.to_string()
        }
        (None, None) => "{}".to_owned(),
    }
}

/// The id of an item, and its JSON with it.
fn with_id(item: &Item<'_>, json: String, owner_id: &str, index: usize) -> (String, String) {
    if let Some(id) = item.id().filter(|id| is_item_id(id)) {
        return (id.into_owned(), json);
    }
    // Longer than the index of any item of the answer, which shares the id of the response.
    let id = item_id(prefix_of(item), owner_id, format_args!("{index:06x}"));
    let Some(mut object) = EditedObject::read(&json) else {
        return (id, json);
    };
    object.set("id", format!("\"{id}\""));
    let json = object.to_json();
    (id, json)
}

/// Whether an id can belong to a stored item: 1 to 128 letters, digits, hyphens and underscores.
fn is_item_id(id: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=128).contains(&id.len()) && id.bytes().all(is_part)
}

fn prefix_of(item: &Item<'_>) -> &'static str {
    match item.kind {
        ItemKind::Message | ItemKind::AgentMessage => "msg",
        ItemKind::Reasoning => "rs",
        ItemKind::FunctionCall => "fc",
        ItemKind::FunctionCallOutput => "fco",
        ItemKind::CustomToolCall => "ctc",
        ItemKind::CustomToolCallOutput => "ctco",
        ItemKind::Compaction => "cmp",
        ItemKind::WebSearchCall => "ws",
        ItemKind::McpCall | ItemKind::ApprovedMcpCall | ItemKind::McpListTools => "mcp",
        ItemKind::McpApprovalRequest | ItemKind::McpApproval | ItemKind::McpDenial => "mcpr",
        ItemKind::ToolSearchCall
        | ItemKind::ToolSearchOutput
        | ItemKind::ServerToolSearch
        | ItemKind::LocalShellCall
        | ItemKind::LocalShellCallOutput
        | ItemKind::ShellCall
        | ItemKind::ShellCallOutput
        | ItemKind::ApplyPatchCall
        | ItemKind::ApplyPatchCallOutput
        | ItemKind::AdditionalTools
        | ItemKind::ConfigurationUpdate
        | ItemKind::ItemReference
        | ItemKind::CompactionTrigger
        | ItemKind::Hosted
        | ItemKind::Unknown => "item",
    }
}

/// Appends a stored item as the API lists it: with a `type` and a `status`, and the content of a
/// message as a list of parts.
pub fn push_listed_item(out: &mut Vec<u8>, json: &str) {
    let Some(mut object) = EditedObject::read(json) else {
        out.extend_from_slice(json.as_bytes());
        return;
    };
    object.set_default("type", "\"message\"");
    object.set_default("status", "\"completed\"");
    if object.is("type", "message") {
        let kind = if object.is("role", "assistant") {
            "output_text"
        } else {
            "input_text"
        };
        object.set_default("role", "\"user\"");
        let text = object.get("content").filter(|raw| raw.starts_with('"'));
        let part = text.map(|text| {
            let extra = if kind == "output_text" {
                ",\"annotations\":[],\"logprobs\":[]"
            } else {
                ""
            };
            format!("[{{\"type\":\"{kind}\",\"text\":{text}{extra}}}]")
        });
        if let Some(part) = part {
            object.set("content", part);
        }
    }
    if object.is("type", "reasoning") || object.is("type", "compaction") {
        // These have no status of their own in the API.
        out.extend_from_slice(json.as_bytes());
        return;
    }
    object.push_json(out);
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn own(input: &Value) -> Vec<OwnItem> {
        let body = json!({"model": "m", "input": input}).to_string();
        TurnSource::new(body).own_items("resp_00ff").unwrap()
    }

    #[test]
    fn each_item_of_a_request_has_an_id() {
        let items = own(&json!([
            {"role": "user", "content": "hi"},
            {"type": "function_call_output", "call_id": "c", "output": "o", "id": null},
            {"type": "message", "id": "msg_1", "role": "assistant", "content": []},
            {"type": "message", "id": "no id", "role": "assistant", "content": []},
        ]));
        let ids: Vec<_> = items.iter().map(|item| &*item.id).collect();
        assert_eq!(
            ids,
            [
                "msg_00ff000000",
                "fco_00ff000001",
                "msg_1",
                "msg_00ff000003"
            ]
        );
        for item in &items {
            let json: Value = serde_json::from_str(&item.json).unwrap();
            assert_eq!(json["id"], item.id);
        }
        let text = own(&json!("hi"));
        assert_eq!(text[0].id, "msg_00ff000000");
    }

    #[test]
    fn a_longer_input_has_the_prefixes_of_the_shorter_one() {
        let short = own(&json!([{"role": "user", "content": "a"}]));
        let long =
            own(&json!([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]));
        assert_eq!(short[0].prefix, long[0].prefix);
        assert_ne!(long[0].prefix, long[1].prefix);
    }

    #[test]
    fn what_is_listed_takes_no_more_than_it_has() {
        let item = json!({"role": "user", "content": "word ".repeat(1 << 16), "id": "msg_1"});
        let item = item.to_string();
        let mut listed = Vec::new();
        push_listed_item(&mut listed, &item);
        let spare = listed.capacity() - listed.len();
        assert!(spare < 100, "{spare} bytes of {}", item.len());
    }

    #[test]
    fn a_listed_message_has_parts_and_a_status() {
        let mut listed = Vec::new();
        push_listed_item(
            &mut listed,
            r#"{"role":"user","content":"hi","id":"msg_1"}"#,
        );
        let listed: Value = serde_json::from_slice(&listed).unwrap();
        assert_eq!(
            listed,
            json!({"id": "msg_1", "type": "message", "role": "user", "status": "completed",
                "content": [{"type": "input_text", "text": "hi"}]})
        );
    }
}
