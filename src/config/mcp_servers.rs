//! The MCP servers to which the server connects for models: `[tools.mcp]`.

use std::collections::BTreeMap;
use std::time::Duration;

use registry::duration::{self, DurationText};
use registry::lists::Pairs;
use schemars::JsonSchema;
use serde::Deserialize;
use url::{Host, Url};

use crate::secrets::Secret;

/// How long the list of the tools of a server is kept, unless it says that it has changed.
const LIST_CACHE: Duration = Duration::from_mins(5);

/// The servers, as they are written: `[tools.mcp]`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct McpSpec {
    /// The hosts, each with a port if it is not the usual one, that requests may name with
    /// `server_url`. Loopback and private addresses are reached only if they are listed as
    /// addresses.
    pub allowed_hosts: Vec<String>,
    /// How long the list of the tools of a server is kept, unless it says that it has changed.
    #[serde(deserialize_with = "duration::deserialize")]
    #[schemars(with = "DurationText")]
    pub list_cache: Duration,
    /// `[tools.mcp.servers.<label>]`: the servers that requests may name by their label.
    pub servers: Pairs<McpServerSpec>,
}

impl Default for McpSpec {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            list_cache: LIST_CACHE,
            servers: Pairs::default(),
        }
    }
}

/// One server, as it is written: `[tools.mcp.servers.<label>]`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct McpServerSpec {
    /// Its address, if it is reached over HTTP.
    pub url: Option<String>,
    /// Whether `url` may be plain `http` to another machine.
    pub allow_http: bool,
    /// The environment variable with its bearer token.
    pub token_env: Option<String>,
    /// The program that is the server, if it speaks on standard input and output.
    pub command: Option<String>,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// The environment variables of the program, besides the few that every program has.
    pub env: Pairs<String>,
    /// The tools that may be used; all if nothing is set.
    pub allowed_tools: Option<Vec<String>>,
    /// Which calls a person has to approve.
    pub require_approval: McpApprovalSetting,
    /// The most time of a call, within `call_timeout` in `[tools]`.
    #[serde(deserialize_with = "some_duration")]
    #[schemars(with = "Option<DurationText>")]
    pub timeout: Option<Duration>,
}

fn some_duration<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration::deserialize(from).map(Some)
}

/// Which calls of a configured server a person has to approve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpApprovalSetting {
    /// All, whatever the request says.
    Always,
    /// The request decides. A call of which it says nothing needs an approval.
    #[default]
    Request,
}

/// The checked form of `[tools.mcp]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpConfig {
    /// The hosts that requests may name.
    pub allowed_hosts: Vec<AllowedHost>,
    /// How long the list of the tools of a server is kept.
    pub list_cache: Duration,
    /// The configured servers by label.
    pub servers: BTreeMap<String, ConfiguredMcpServer>,
}

impl Default for McpConfig {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            list_cache: LIST_CACHE,
            servers: BTreeMap::new(),
        }
    }
}

/// A host that requests may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedHost {
    /// The name or address.
    pub host: Host,
    /// The port; the usual one of `https` or `http` if absent.
    pub port: Option<u16>,
}

impl AllowedHost {
    /// Reads `host` or `host:port`.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = !text.contains(['/', '@', '?', '#', '*']) && text.trim() == text;
        let url = Url::parse(&format!("http://{text}")).ok();
        let url = url.filter(|_| is_plain && !text.is_empty())?;
        // The usual port of a scheme is not kept in a URL.
        let port = url.port().or_else(|| text.ends_with(":80").then_some(80));
        Some(Self {
            host: url.host()?.to_owned(),
            port,
        })
    }

    /// Whether a URL leads there.
    pub fn allows(&self, url: &Url) -> bool {
        let host = url.host().map(|host| host.to_owned());
        let has_port = match self.port {
            Some(port) => url.port_or_known_default() == Some(port),
            None => url.port().is_none(),
        };
        has_port && host.as_ref() == Some(&self.host)
    }
}

/// A configured server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredMcpServer {
    /// How it is reached.
    pub transport: McpTransport,
    /// The tools that may be used; all if absent.
    pub allowed_tools: Option<Vec<String>>,
    /// Whether a person has to approve each call.
    pub always_asks: bool,
    /// The most time of a call.
    pub timeout: Option<Duration>,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpTransport {
    /// Over HTTP.
    Http {
        /// Its address.
        url: Url,
        /// Its bearer token.
        token: Option<Secret>,
    },
    /// It is a program, which is started.
    Program {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment variables. Their values may be secrets.
        env: Vec<(String, Secret)>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_allowed_with_its_port() {
        for (allowed, url, expected) in [
            ("mcp.example.com", "https://mcp.example.com/mcp", true),
            ("mcp.example.com", "https://MCP.example.com:443/mcp", true),
            ("mcp.example.com", "https://mcp.example.com:8443/mcp", false),
            ("mcp.example.com", "https://a.mcp.example.com/", false),
            (
                "mcp.example.com",
                "https://mcp.example.com.evil.net/",
                false,
            ),
            (
                "mcp.example.com:8443",
                "https://mcp.example.com:8443/",
                true,
            ),
            ("mcp.example.com:443", "https://mcp.example.com/", true),
            ("127.0.0.1:8931", "http://127.0.0.1:8931/mcp", true),
            ("127.0.0.1:8931", "http://127.0.0.1:8932/mcp", false),
            ("127.0.0.1:8931", "http://2130706433:8931/", true),
            ("127.0.0.1:80", "http://127.0.0.1/", true),
            ("127.0.0.1:80", "https://127.0.0.1/", false),
            ("[::1]:80", "http://[::1]/", true),
        ] {
            let url = Url::parse(url).unwrap();
            let host = AllowedHost::parse(allowed).unwrap();
            assert_eq!(host.allows(&url), expected, "{allowed} {url}");
        }
        for wrong in [
            "",
            "*",
            "*.example.com",
            "https://a.b",
            "a.b/c",
            "u@a.b",
            "a.b:x",
        ] {
            assert_eq!(AllowedHost::parse(wrong), None, "{wrong}");
        }
    }
}
