//! What a client's definition of an MCP server asks for (`mcp` in the list of tools), and the
//! secrets in it.
//!
//! The fields are those of OpenAI's API reference.

use std::collections::HashSet;

use serde_json::value::RawValue;

use crate::fault::Fault;
use crate::json;
use crate::members::{Members, rewrite};

/// The longest label of a server, in bytes, as OpenAI has it.
const MAX_LABEL: usize = 64;
/// The most servers of a request.
const MAX_SERVERS: usize = 32;
/// The most names of tools in a list.
const MAX_NAMES: usize = 1_000;
/// The fields whose values are secrets.
const SECRET_FIELDS: [&str; 2] = ["authorization", "headers"];

/// The definition of one server in a request, without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpDefinition {
    /// Its place in the list of tools.
    pub place: usize,
    /// The name of the server in the request.
    pub label: String,
    /// Its address; without one the label is that of a server which the operator has configured.
    pub server_url: Option<String>,
    /// The tools that may be used; all if absent.
    pub allowed: Option<McpToolFilter>,
    /// Which calls a person has to approve.
    pub approval: McpApproval,
    /// Whether its tools are not offered until a search finds them.
    pub is_deferred: bool,
}

/// Some of the tools of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpToolFilter {
    /// Those with these names.
    pub names: Option<HashSet<String>>,
    /// Those that only read, or only the others.
    pub read_only: Option<bool>,
}

/// Which calls a person has to approve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum McpApproval {
    /// All.
    #[default]
    Always,
    /// None.
    Never,
    /// All but those of some tools.
    Except {
        /// The tools that need none.
        never: McpToolFilter,
        /// The tools that need one, even if they are among the others.
        always: McpToolFilter,
    },
}

/// The secrets of one server in a request. They have no `Debug`.
pub struct McpSecrets {
    /// The place of the server in the list of tools.
    pub place: usize,
    /// What is sent as its bearer token.
    pub authorization: Option<String>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
}

/// Which model a request asks, and whether it names MCP servers.
pub struct McpMention {
    /// The model.
    pub model: String,
    /// Whether one of the servers has no address, so that no provider can reach it.
    pub has_configured: bool,
}

impl McpMention {
    /// Reads the body of a request; `None` if it names no MCP server.
    pub fn of(body: &str) -> Option<Self> {
        let members = Members::read(body)?;
        let tools = json::list::<&RawValue>(members.get("tools"));
        let mut servers = tools.into_iter().filter_map(server).peekable();
        servers.peek()?;
        let addresses = ["server_url", "connector_id", "tunnel_id"];
        let has_address =
            |server: &Members<'_>| addresses.iter().any(|it| server.present(it).is_some());
        Some(Self {
            model: members.text("model").unwrap_or_default().into_owned(),
            has_configured: servers.any(|server| !has_address(&server)),
        })
    }
}

/// The body of a request without the secrets of its MCP servers, and these. `None` if it has none.
pub fn take_secrets(body: &str) -> Result<Option<(String, Vec<McpSecrets>)>, Fault> {
    let Some(members) = Members::read(body) else {
        return Ok(None);
    };
    let mut secrets = Vec::new();
    let mut written = Vec::new();
    let tools = json::list::<&RawValue>(members.get("tools"));
    for (place, tool) in tools.into_iter().enumerate() {
        let found = server(tool).filter(|server| {
            let mut fields = SECRET_FIELDS.iter();
            fields.any(|field| server.get(field).is_some())
        });
        match found {
            Some(server) => {
                secrets.push(read_secrets(&server, place)?);
                let mut out = Vec::new();
                rewrite(&mut out, &server, &SECRET_FIELDS.map(|field| (field, None)));
                written.push(String::from_utf8_lossy(&out).into_owned());
            }
            None => written.push(tool.get().to_owned()),
        }
    }
    if secrets.is_empty() {
        return Ok(None);
    }
    let tools = format!("[{}]", written.join(","));
    let mut out = Vec::new();
    rewrite(&mut out, &members, &[("tools", Some(tools))]);
    Ok(Some((String::from_utf8_lossy(&out).into_owned(), secrets)))
}

fn read_secrets(server: &Members<'_>, place: usize) -> Result<McpSecrets, Fault> {
    let authorization = text(server, place, "authorization")?;
    let mut headers = Vec::new();
    if let Some(raw) = server.present("headers") {
        let expected = "an object whose values are strings";
        let unreadable = || wrong(place, "headers", expected);
        let members = Members::read(raw.get()).ok_or_else(unreadable)?;
        for (name, value) in members.iter() {
            let value = json::string_value(Some(value)).ok_or_else(unreadable)?;
            headers.push((name.to_owned(), value.into_owned()));
        }
    }
    Ok(McpSecrets {
        place,
        authorization,
        headers,
    })
}

impl McpDefinition {
    /// Reads the servers of a list of tools. An error names the field that cannot be used.
    pub fn read_all(tools: Option<&RawValue>) -> Result<Vec<Self>, Fault> {
        let mut servers: Vec<Self> = Vec::new();
        let tools = json::list::<&RawValue>(tools);
        for (place, tool) in tools.into_iter().enumerate() {
            let Some(members) = server(tool) else {
                continue;
            };
            if servers.len() >= MAX_SERVERS {
                let message = format!("The request names more than {MAX_SERVERS} MCP servers.");
                return Err(Fault::invalid("tools", message));
            }
            let read = Self::read(&members, place)?;
            if servers.iter().any(|other| other.label == read.label) {
                let field = format!("tools[{place}].server_label");
                let message = format!("'{field}' is that of another server of the request.");
                return Err(Fault::invalid(field, message));
            }
            servers.push(read);
        }
        Ok(servers)
    }

    /// Whether a text can be the label of a server: 1 to 64 letters, digits, `_` and `-`.
    pub fn is_label(text: &str) -> bool {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        (1..=MAX_LABEL).contains(&text.len()) && text.bytes().all(fits)
    }

    fn read(server: &Members<'_>, place: usize) -> Result<Self, Fault> {
        for field in ["connector_id", "tunnel_id"] {
            if server.present(field).is_some() {
                let param = format!("tools[{place}].{field}");
                let message = format!(
                    "'{param}' names a service of OpenAI, which does not exist here: give 'server_url', or the 'server_label' of a server in [tools.mcp.servers]."
                );
                return Err(Fault::invalid(param, message).with_code("unsupported_parameter"));
            }
        }
        // They are taken out before anything else reads the request.
        if let Some(field) = SECRET_FIELDS
            .iter()
            .find(|field| server.get(field).is_some())
        {
            return Err(wrong(place, field, "in the tools of the request itself"));
        }
        let Some(raw) = server.present("server_label") else {
            return Err(Fault::missing(format!("tools[{place}].server_label")));
        };
        let label = json::string_value(Some(raw)).filter(|label| Self::is_label(label));
        let label = label.ok_or_else(|| {
            let expected = "a name of 1 to 64 letters, digits, '_' and '-'";
            wrong(place, "server_label", expected)
        })?;
        text(server, place, "server_description")?;
        if let Some(raw) = server.present("defer_loading")
            && !["true", "false"].contains(&raw.get())
        {
            return Err(wrong(place, "defer_loading", "true or false"));
        }
        let is_deferred = json::is_true(server.get("defer_loading"));
        let allowed = server.present("allowed_tools");
        let allowed = allowed.map(|raw| filter(raw, place, "allowed_tools"));
        Ok(Self {
            place,
            label: label.into_owned(),
            server_url: text(server, place, "server_url")?,
            allowed: allowed.transpose()?,
            approval: approval(server, place)?,
            is_deferred,
        })
    }

    /// Whether a tool of the server may be used.
    pub fn allows(&self, name: &str, is_read_only: bool) -> bool {
        let allowed = self.allowed.as_ref();
        allowed.is_none_or(|allowed| allowed.is_empty() || allowed.has(name, is_read_only))
    }
}

impl McpToolFilter {
    /// Whether it says nothing.
    fn is_empty(&self) -> bool {
        self.names.is_none() && self.read_only.is_none()
    }

    /// Whether a tool is one of them. Without a condition none is.
    fn has(&self, name: &str, is_read_only: bool) -> bool {
        let is_named = self.names.as_ref().is_none_or(|names| names.contains(name));
        let fits = self.read_only.is_none_or(|wanted| wanted == is_read_only);
        !self.is_empty() && is_named && fits
    }
}

impl McpApproval {
    /// Whether a person has to approve a call of this tool.
    pub fn is_needed(&self, name: &str, is_read_only: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Except { never, always } => {
                always.has(name, is_read_only) || !never.has(name, is_read_only)
            }
        }
    }
}

fn approval(server: &Members<'_>, place: usize) -> Result<McpApproval, Fault> {
    let field = "require_approval";
    let Some(raw) = server.present(field) else {
        return Ok(McpApproval::Always);
    };
    let expected = "\"always\", \"never\", or an object with 'always' and 'never'";
    match json::string_value(Some(raw)).as_deref() {
        Some("always") => return Ok(McpApproval::Always),
        Some("never") => return Ok(McpApproval::Never),
        Some(_) => return Err(wrong(place, field, expected)),
        None => {}
    }
    let members = Members::read(raw.get()).ok_or_else(|| wrong(place, field, expected))?;
    let part = |name: &str| {
        let raw = members.present(name);
        let read = raw.map(|raw| filter(raw, place, &format!("{field}.{name}")));
        read.transpose().map(Option::unwrap_or_default)
    };
    Ok(McpApproval::Except {
        never: part("never")?,
        always: part("always")?,
    })
}

/// A list of names, or an object with `tool_names` and `read_only`.
fn filter(raw: &RawValue, place: usize, field: &str) -> Result<McpToolFilter, Fault> {
    let names = |raw: &RawValue, field: &str| {
        let names: Option<HashSet<String>> = serde_json::from_str(raw.get()).ok();
        let names = names.filter(|names| names.len() <= MAX_NAMES);
        names.ok_or_else(|| {
            let expected = format!("a list of at most {MAX_NAMES} names of tools");
            wrong(place, field, &expected)
        })
    };
    if raw.get().starts_with('[') {
        return Ok(McpToolFilter {
            names: Some(names(raw, field)?),
            read_only: None,
        });
    }
    let expected = "a list of names, or an object with 'tool_names' and 'read_only'";
    let members = Members::read(raw.get()).ok_or_else(|| wrong(place, field, expected))?;
    let listed = members.present("tool_names");
    let listed = listed.map(|raw| names(raw, &format!("{field}.tool_names")));
    let read_only = match members.present("read_only").map(RawValue::get) {
        None => None,
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(_) => {
            let field = format!("{field}.read_only");
            return Err(wrong(place, &field, "true or false"));
        }
    };
    Ok(McpToolFilter {
        names: listed.transpose()?,
        read_only,
    })
}

/// The members of a definition, if it is that of an MCP server.
fn server(tool: &RawValue) -> Option<Members<'_>> {
    let members = Members::read(tool.get())?;
    let is_server = members.text("type").is_some_and(|kind| kind == "mcp");
    is_server.then_some(members)
}

/// A field that is a string, if it is there.
fn text(server: &Members<'_>, place: usize, field: &str) -> Result<Option<String>, Fault> {
    let Some(raw) = server.present(field) else {
        return Ok(None);
    };
    let text = json::string_value(Some(raw)).ok_or_else(|| wrong(place, field, "a string"))?;
    Ok(Some(text.into_owned()))
}

fn wrong(place: usize, field: &str, expected: &str) -> Fault {
    let param = format!("tools[{place}].{field}");
    let message = format!("'{param}' must be {expected}.");
    Fault::invalid(param, message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(server: &Value) -> Result<McpDefinition, Fault> {
        let mut server = server.clone();
        server["type"] = "mcp".into();
        let list = json!([{"type": "function", "name": "f"}, server]).to_string();
        let raw: &RawValue = serde_json::from_str(&list).unwrap();
        Ok(McpDefinition::read_all(Some(raw))?.remove(0))
    }

    /// Promise: A definition of an MCP server that cannot be read is refused with the path of the
    /// field.
    #[test]
    fn mistakes_name_their_field() {
        for (server, param) in [
            (json!({}), "tools[1].server_label"),
            (json!({"server_label": ""}), "tools[1].server_label"),
            (json!({"server_label": "a b"}), "tools[1].server_label"),
            (json!({"server_label": 1}), "tools[1].server_label"),
            (
                json!({"server_label": "a", "server_url": 1}),
                "tools[1].server_url",
            ),
            (
                json!({"server_label": "a", "connector_id": "connector_gmail"}),
                "tools[1].connector_id",
            ),
            (
                json!({"server_label": "a", "tunnel_id": "t"}),
                "tools[1].tunnel_id",
            ),
            (
                json!({"server_label": "a", "allowed_tools": "b"}),
                "tools[1].allowed_tools",
            ),
            (
                json!({"server_label": "a", "allowed_tools": [1]}),
                "tools[1].allowed_tools",
            ),
            (
                json!({"server_label": "a", "allowed_tools": {"tool_names": "b"}}),
                "tools[1].allowed_tools.tool_names",
            ),
            (
                json!({"server_label": "a", "require_approval": "sometimes"}),
                "tools[1].require_approval",
            ),
            (
                json!({"server_label": "a", "require_approval": {"never": {"read_only": 1}}}),
                "tools[1].require_approval.never.read_only",
            ),
            (
                json!({"server_label": "a", "defer_loading": "yes"}),
                "tools[1].defer_loading",
            ),
            (
                json!({"server_label": "a", "authorization": "t"}),
                "tools[1].authorization",
            ),
        ] {
            let fault = read(&server).unwrap_err();
            assert_eq!(fault.param.as_deref(), Some(param), "{server}");
            assert!(fault.message.contains(param), "{}", fault.message);
        }
        let twice = r#"[{"type":"mcp","server_label":"a"},{"type":"mcp","server_label":"a"}]"#;
        let twice: &RawValue = serde_json::from_str(twice).unwrap();
        let fault = McpDefinition::read_all(Some(twice)).unwrap_err();
        assert_eq!(fault.param.as_deref(), Some("tools[1].server_label"));
    }

    #[test]
    fn tools_are_allowed_and_approved_as_the_request_says() {
        let of = |server: Value| {
            let read = read(&server).unwrap();
            let judged = |name: &str, reads: bool| {
                (
                    read.allows(name, reads),
                    read.approval.is_needed(name, reads),
                )
            };
            [judged("look", true), judged("change", false)]
        };
        let label = "a";
        let never = json!({"never": {"tool_names": ["look"]}});
        let some = json!({"never": {"read_only": true}, "always": {"tool_names": ["look"]}});
        for (server, expected) in [
            (json!({"server_label": label}), [(true, true), (true, true)]),
            (
                json!({"server_label": label, "require_approval": "never"}),
                [(true, false), (true, false)],
            ),
            (
                json!({"server_label": label, "require_approval": never}),
                [(true, false), (true, true)],
            ),
            (
                json!({"server_label": label, "require_approval": some}),
                [(true, true), (true, true)],
            ),
            (
                json!({"server_label": label, "require_approval": {"never": {}}}),
                [(true, true), (true, true)],
            ),
            (
                json!({"server_label": label, "allowed_tools": ["change"]}),
                [(false, true), (true, true)],
            ),
            (
                json!({"server_label": label, "allowed_tools": {"read_only": true}}),
                [(true, true), (false, true)],
            ),
            (
                json!({"server_label": label, "allowed_tools": []}),
                [(false, true), (false, true)],
            ),
        ] {
            assert_eq!(of(server.clone()), expected, "{server}");
        }
    }

    #[test]
    fn secrets_are_taken_out_of_the_body() {
        let body = r#"{"model":"m", "tools":[{"type":"\u006dcp","server_label":"a","authorization":"t1",
            "headers":{"X-Key":"t2"}},{"type":"function","name":"f"}],"input":"hi"}"#;
        let (clean, secrets) = take_secrets(body).unwrap().unwrap();
        let expected = json!({"model": "m", "input": "hi", "tools": [
            {"type": "mcp", "server_label": "a"}, {"type": "function", "name": "f"},
        ]});
        assert_eq!(serde_json::from_str::<Value>(&clean).unwrap(), expected);
        assert_eq!(secrets.len(), 1);
        assert_eq!(secrets[0].authorization.as_deref(), Some("t1"));
        assert_eq!(secrets[0].headers, [("X-Key".to_owned(), "t2".to_owned())]);
        assert!(take_secrets(&clean).unwrap().is_none());
        for (field, value) in [("authorization", json!(1)), ("headers", json!({"a": 1}))] {
            let body = json!({"tools": [{"type": "mcp", field: value}]}).to_string();
            let fault = take_secrets(&body).err().unwrap();
            assert_eq!(fault.param.unwrap(), format!("tools[0].{field}"));
        }
    }
}
