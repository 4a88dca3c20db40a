//! Loads `[tools.mcp]`.

use adapters::tools::McpDefinition;
use url::Url;

use super::ConfigLoader;
use crate::config::address;
use crate::config::mcp_servers::{
    AllowedHost, ConfiguredMcpServer, McpApprovalSetting, McpConfig, McpServerSpec, McpSpec,
    McpTransport,
};
use crate::config::toml_file::TomlFile;
use crate::secrets::Secret;

impl ConfigLoader<'_> {
    /// Adds the MCP servers. One whose token is missing is off, with a warning.
    pub(super) fn mcp_servers(&mut self, main: &TomlFile, spec: McpSpec) {
        // A file that was found may not have this table, which was reported before. It is not read,
        // so that no command of it can run.
        if self.config.paths.is_found {
            return;
        }
        let mut config = McpConfig {
            list_cache: spec.list_cache,
            ..McpConfig::default()
        };
        for text in &spec.allowed_hosts {
            match AllowedHost::parse(text) {
                Some(host) => config.allowed_hosts.push(host),
                None => self.fail(main.error(
                    &["tools", "mcp", "allowed_hosts"],
                    format!(
                        "`{text}` is not a host such as \"mcp.example.com\" or \"127.0.0.1:8931\""
                    ),
                )),
            }
        }
        for (label, server) in spec.servers.0 {
            match self.mcp_server(&label, server) {
                Ok(Some(server)) => {
                    config.servers.insert(label, server);
                }
                Ok(None) => {}
                Err((key, why)) => {
                    let path = ["tools", "mcp", "servers", &label, key];
                    self.fail(main.error(&path, format!("MCP server `{label}`: {why}")));
                }
            }
        }
        self.config.mcp = config;
    }

    /// A server; `None` if it is off. An error is the key with a mistake, and what it is.
    fn mcp_server(
        &mut self,
        label: &str,
        spec: McpServerSpec,
    ) -> Result<Option<ConfiguredMcpServer>, (&'static str, String)> {
        let mistake = |key, why: &str| Err((key, why.to_owned()));
        if !McpDefinition::is_label(label) {
            return mistake("", "a label has 1 to 64 letters, digits, '_' and '-'");
        }
        if spec.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return mistake("timeout", "`timeout` must be above zero");
        }
        let transport = match (spec.url, spec.command) {
            (Some(_), Some(_)) => return mistake("command", "it has both `url` and `command`"),
            (None, None) => return mistake("url", "it needs `url` or `command`"),
            (Some(url), None) => {
                if let Some(why) = address::mcp_url_error(&url, spec.allow_http) {
                    return mistake("url", why);
                }
                if !spec.args.is_empty() || !spec.env.0.is_empty() {
                    return mistake("url", "`args` and `env` are those of a `command`");
                }
                let token = spec.token_env.as_deref().map(|name| {
                    let value = self.inputs.environment.get(name);
                    value.as_deref().and_then(Secret::new).ok_or(name)
                });
                let token = match token.transpose() {
                    Ok(token) => token,
                    Err(name) => {
                        self.warn(format!("MCP server `{label}` is off: {name} is not set"));
                        return Ok(None);
                    }
                };
                match Url::parse(&url) {
                    Ok(url) => McpTransport::Http { url, token },
                    Err(_) => return mistake("url", "`url` is not a URL"),
                }
            }
            (None, Some(command)) => {
                if spec.token_env.is_some() {
                    return mistake("token_env", "a `command` gets its secrets in `env`");
                }
                let env = spec.env.0.into_iter();
                McpTransport::Program {
                    command,
                    args: spec.args,
                    env: env
                        .filter_map(|(name, value)| Some((name, Secret::new(&value)?)))
                        .collect(),
                }
            }
        };
        Ok(Some(ConfiguredMcpServer {
            transport,
            allowed_tools: spec.allowed_tools,
            always_asks: spec.require_approval == McpApprovalSetting::Always,
            timeout: spec.timeout,
        }))
    }
}
