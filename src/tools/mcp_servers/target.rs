//! A server that a turn uses: how it is reached, and with which secrets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use adapters::fault::Fault;
use adapters::tools::McpDefinition;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};
use url::{Host, Url};

use crate::config::mcp_servers::{AllowedHost, ConfiguredMcpServer, McpConfig, McpTransport};
use crate::secrets::Secret;
use crate::turn::McpServerSecrets;

/// The headers that belong to the protocol or to the connection.
const OWN_HEADERS: [&str; 12] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "transfer-encoding",
];

/// How a server is reached. Made for each turn that names it.
#[derive(Clone)]
pub(super) struct McpTarget {
    pub(super) label: String,
    pub(super) transport: McpTransport,
    /// Further headers, with their values.
    pub(super) headers: Vec<(HeaderName, Secret)>,
    pub(super) reach: McpReach,
}

/// Which addresses a server may have.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum McpReach {
    /// Any: the operator has configured it.
    Any,
    /// Public ones, and these, which the operator has listed.
    PublicAnd(Vec<IpAddr>),
}

/// What the operator's configuration says of a server that has been named by its label.
#[derive(Clone, Default)]
pub(super) struct OperatorLimits {
    pub(super) allowed_tools: Option<Vec<String>>,
    pub(super) always_asks: bool,
    pub(super) timeout: Option<Duration>,
}

impl OperatorLimits {
    fn of(server: &ConfiguredMcpServer) -> Self {
        Self {
            allowed_tools: server.allowed_tools.clone(),
            always_asks: server.always_asks,
            timeout: server.timeout,
        }
    }

    /// Whether a tool may be used.
    pub(super) fn allows(&self, name: &str) -> bool {
        let allowed = self.allowed_tools.as_ref();
        allowed.is_none_or(|allowed| allowed.iter().any(|known| known == name))
    }
}

impl McpTarget {
    /// The server that a request defines. An error says what the request, or the configuration,
    /// has to change.
    pub(super) fn of(
        definition: &McpDefinition,
        secrets: Option<&McpServerSecrets>,
        config: &McpConfig,
    ) -> Result<(Self, OperatorLimits), Fault> {
        let (transport, reach, limits) = if let Some(url) = &definition.server_url {
            let (url, reach) = allowed_url(definition, url, config)?;
            let transport = McpTransport::Http { url, token: None };
            (transport, reach, OperatorLimits::default())
        } else {
            let configured = config.servers.get(&definition.label);
            let configured = configured.ok_or_else(|| unknown(definition))?;
            let limits = OperatorLimits::of(configured);
            (configured.transport.clone(), McpReach::Any, limits)
        };
        let mut target = Self {
            label: definition.label.clone(),
            transport,
            headers: Vec::new(),
            reach,
        };
        if let Some(secrets) = secrets {
            target.take(definition, secrets)?;
        }
        Ok((target, limits))
    }

    /// Takes the secrets of a request. A program gets those of its configuration alone.
    fn take(
        &mut self,
        definition: &McpDefinition,
        secrets: &McpServerSecrets,
    ) -> Result<(), Fault> {
        let McpTransport::Http { token, .. } = &mut self.transport else {
            return Ok(());
        };
        if let Some(authorization) = &secrets.authorization {
            let text = authorization.expose();
            let bare = text.strip_prefix("Bearer ").unwrap_or(text);
            if HeaderValue::from_str(bare).is_err() {
                return Err(wrong(
                    definition,
                    "authorization",
                    "a token that a header can carry",
                ));
            }
            *token = Secret::new(bare);
        }
        for (name, value) in &secrets.headers {
            let parsed = HeaderName::try_from(name.as_str()).ok();
            let parsed = parsed.filter(|name| !OWN_HEADERS.contains(&name.as_str()));
            let fits = HeaderValue::from_str(value.expose()).is_ok();
            let name = parsed.filter(|_| fits).ok_or_else(|| {
                let expected = "headers that can be sent, without those of the protocol itself";
                wrong(definition, "headers", expected)
            })?;
            self.headers.push((name, value.clone()));
        }
        Ok(())
    }

    /// The secrets that its server gets.
    pub(super) fn secrets(&self) -> Vec<Secret> {
        let mut secrets: Vec<Secret> = self.headers.iter().map(|(_, it)| it.clone()).collect();
        match &self.transport {
            McpTransport::Http { token, .. } => secrets.extend(token.clone()),
            McpTransport::Program { env, .. } => {
                secrets.extend(env.iter().map(|(_, value)| value.clone()));
            }
        }
        secrets
    }

    /// What tells its connection from those of others: everything that it is made of, and its
    /// owner. A hash, because secrets are part of it.
    pub(super) fn key(&self, owner: &str) -> [u8; 32] {
        let mut hash = PartsHash::default();
        hash.add(owner);
        hash.add(&self.identity());
        match &self.transport {
            McpTransport::Http { token, .. } => {
                hash.add(token.as_ref().map_or("", Secret::expose));
            }
            McpTransport::Program { env, .. } => {
                for (name, value) in env {
                    hash.add(name);
                    hash.add(value.expose());
                }
            }
        }
        for (name, value) in &self.headers {
            hash.add(name.as_str());
            hash.add(value.expose());
        }
        if let McpReach::PublicAnd(addresses) = &self.reach {
            for address in addresses {
                hash.add(&address.to_string());
            }
        }
        hash.bytes()
    }

    /// What tells the server from others, whoever reaches it and with which secrets: a hash of its
    /// label and of its address or program.
    pub(super) fn identity(&self) -> String {
        let mut hash = PartsHash::default();
        hash.add(&self.label);
        match &self.transport {
            McpTransport::Http { url, .. } => {
                hash.add("http");
                hash.add(url.as_str());
            }
            McpTransport::Program { command, args, .. } => {
                hash.add("program");
                hash.add(command);
                for arg in args {
                    hash.add(arg);
                }
            }
        }
        hash.text()
    }
}

/// A hash of several texts. The length of each is part of it, so that two texts are never taken for
/// one.
#[derive(Default)]
pub(super) struct PartsHash(Sha256);

impl PartsHash {
    pub(super) fn add(&mut self, part: &str) {
        self.0.update(part.len().to_le_bytes());
        self.0.update(part.as_bytes());
    }

    fn bytes(self) -> [u8; 32] {
        self.0.finalize().into()
    }

    /// The hash in the alphabet of URLs.
    pub(super) fn text(self) -> String {
        URL_SAFE_NO_PAD.encode(self.bytes())
    }
}

/// The address that a request gives, if the operator allows it.
fn allowed_url(
    definition: &McpDefinition,
    url: &str,
    config: &McpConfig,
) -> Result<(Url, McpReach), Fault> {
    let field = "server_url";
    let expected = "a URL that begins with https:// or http://, without a password";
    let parsed = Url::parse(url).ok().filter(|url| {
        ["http", "https"].contains(&url.scheme())
            && url.username().is_empty()
            && url.password().is_none()
    });
    let url = parsed.ok_or_else(|| wrong(definition, field, expected))?;
    let Some(host) = url.host() else {
        return Err(wrong(definition, field, expected));
    };
    if !config.allowed_hosts.iter().any(|host| host.allows(&url)) {
        let port = url.port().map_or(String::new(), |port| format!(":{port}"));
        let message = format!(
            "The MCP server '{}' is at '{host}{port}', which requests to this server may not name: its operator can add \"{host}{port}\" to allowed_hosts in [tools.mcp] of the configuration.",
            definition.label
        );
        let param = format!("tools[{}].{field}", definition.place);
        return Err(Fault::invalid(param, message).with_code("mcp_server_not_allowed"));
    }
    // An address is allowed only if the operator has listed it.
    let may_be_plain = |host: &Host<&str>| match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(_) | Host::Ipv6(_) => true,
    };
    if url.scheme() == "http" && !may_be_plain(&host) {
        let expected =
            "a URL that begins with https://, because the request travels to another network";
        return Err(wrong(definition, field, expected));
    }
    let listed = config.allowed_hosts.iter();
    let listed = listed.filter(|allowed| {
        let named = url.port_or_known_default();
        allowed.port.is_none_or(|port| named == Some(port))
    });
    let mut addresses: Vec<IpAddr> = listed.filter_map(listed_address).collect();
    if host == Host::Domain("localhost") {
        addresses.extend([
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ]);
    }
    Ok((url, McpReach::PublicAnd(addresses)))
}

fn listed_address(allowed: &AllowedHost) -> Option<IpAddr> {
    match &allowed.host {
        Host::Ipv4(address) => Some(IpAddr::V4(*address)),
        Host::Ipv6(address) => Some(IpAddr::V6(*address)),
        Host::Domain(_) => None,
    }
}

fn unknown(definition: &McpDefinition) -> Fault {
    let param = format!("tools[{}].server_url", definition.place);
    let message = format!(
        "Missing required parameter: '{param}'. It may be left out for a server of [tools.mcp.servers] in the configuration, which has none with the label '{}'.",
        definition.label
    );
    Fault::invalid(param, message).with_code("missing_required_parameter")
}

fn wrong(definition: &McpDefinition, field: &str, expected: &str) -> Fault {
    let param = format!("tools[{}].{field}", definition.place);
    let message = format!("'{param}' must be {expected}.");
    Fault::invalid(param, message)
}
