//! What a configuration file may not do if it was found in the working directory. The author of the
//! directory may have written it, so it runs no command, reads no other file, sends no key to an
//! address of its own, has no webhooks, deletes nothing, lets no client in, and takes no name of a
//! model from the provider that has it.

use registry::{EVERY_MODEL, Provider, ProviderSpec, builtin};
use toml::Table;

use super::ConfigLoader;
use super::provider::ProviderTable;
use crate::config::address::accepts_remote_clients;
use crate::config::settings::ServerConfig;
use crate::config::toml_file::TomlFile;

/// How each of these refusals ends.
const REMEDY: &str = "is not allowed in a file that was found in the working directory; \
     if you trust the file, name it with --config";

/// The keys that such a file may set outside of `[providers]`, by table. A key that is not here is
/// refused.
const ALLOWED: [(&str, &[&str]); 12] = [
    (
        "server",
        &[
            "listen",
            "body_limit",
            "header_timeout",
            "body_timeout",
            "grace",
            "heartbeat",
            "commit_after",
            "turn_timeout",
            "websocket",
            "websocket_lifetime",
            "memory",
            "max_connections",
            "log",
            "log_format",
        ],
    ),
    ("routing", &["default_model", "aliases", "fallbacks"]),
    ("codex", &["tool_search"]),
    ("context", &["outputs"]),
    ("artifacts", &["mode", "memory"]),
    ("responses", &["mode"]),
    (
        "history",
        &[
            "mode",
            "max_items",
            "max_messages",
            "max_chars",
            "max_message_chars",
        ],
    ),
    (
        "search",
        &[
            "mode",
            "cache_minutes",
            "robots",
            "allow_plain_text",
            "allow_pdf",
            "max_searches",
            "max_pages",
        ],
    ),
    ("jobs", &["running", "queued", "timeout", "client_tools"]),
    ("vision", &["max_images", "timeout"]),
    (
        "tools",
        &[
            "artifacts",
            "max_artifact_chars",
            "max_rounds",
            "max_unusable_rounds",
            "max_calls",
            "call_timeout",
        ],
    ),
    (
        "capture",
        &[
            "mode",
            "recent",
            "memory",
            "patterns",
            "images",
            "encrypted",
        ],
    ),
];

impl ConfigLoader<'_> {
    /// Refuses the settings outside of providers that a file must not have if the user has not
    /// named it.
    pub(super) fn distrust_settings(
        &mut self,
        main: &TomlFile,
        table: &Table,
        server: &ServerConfig,
    ) {
        if !self.config.paths.is_found {
            return;
        }
        for (name, value) in table.iter().filter(|(name, _)| *name != "providers") {
            let of_table = ALLOWED.iter().find(|(known, _)| known == name);
            let keys = value.as_table().filter(|_| {
                of_table.is_some() || ["prompts", "workflows"].contains(&name.as_str())
            });
            let Some(keys) = keys else {
                self.fail(main.error(&[name], format!("[{name}] {REMEDY}")));
                continue;
            };
            for key in keys.keys() {
                if !of_table.is_some_and(|(_, allowed)| allowed.contains(&key.as_str())) {
                    self.fail(main.error(&[name, key], format!("{key} {REMEDY}")));
                }
            }
        }
        if accepts_remote_clients(server.listen) {
            let why = format!("an address for other machines {REMEDY}");
            self.fail(main.error(&["server", "listen"], why));
        }
    }

    /// Refuses the names that lead to an address of such a file although they are those of other
    /// providers.
    pub(super) fn distrust_routing(&mut self, main: &TomlFile) {
        let registry = &self.config.registry;
        let to_stranger = |name: &str| {
            let route = registry.resolve(name, false).ok();
            route.filter(|route| registry.is_stranger(&route.provider))
        };
        let has_others = registry.own_providers().next().is_some();
        let mut refused: Vec<([&str; 3], &str)> = Vec::new();
        for (alias, target) in &registry.aliases {
            let route = to_stranger(target);
            if route.is_some_and(|route| !registry.may_answer(&route.provider, alias)) {
                refused.push((["routing", "aliases", alias], "an alias"));
            }
        }
        for (of, others) in &registry.fallbacks {
            let is_of_others = if of == EVERY_MODEL {
                has_others
            } else {
                to_stranger(of).is_none()
            };
            if is_of_others && others.iter().any(|name| to_stranger(name).is_some()) {
                refused.push((["routing", "fallbacks", of], "a fallback"));
            }
        }
        let default = registry.default_model.as_deref();
        if has_others && default.and_then(to_stranger).is_some() {
            refused.push((["routing", "default_model", ""], "a default"));
        }
        let errors: Vec<_> = refused
            .into_iter()
            .map(|(path, what)| {
                let why = format!("{what} that takes models of another provider {REMEDY}");
                main.error(&path, why)
            })
            .collect();
        for error in errors {
            self.fail(error);
        }
    }

    /// Whether the settings of this provider are allowed where they are; those that are not
    /// are refused.
    pub(super) fn trusts(
        &mut self,
        table: &ProviderTable,
        overrides: &Table,
        provider: &Provider,
    ) -> bool {
        if !self.config.paths.is_found {
            return true;
        }
        let mut refused = refused_settings(table.id, &table.spec, overrides, &|name| {
            self.inputs.environment.get(name).is_some()
        });
        if !builtin::is_builtin(table.id) {
            self.config.registry.strangers.push(table.id.to_owned());
        } else if !provider.key_required
            && let Some(base_url) = &table.spec.base_url
            && !builtin::has_fixed_address(table.id, base_url)
        {
            // Without a key it would be on, and get what is meant for the provider of this name.
            refused.push(("base_url", "a base_url for a built-in provider".to_owned()));
        }
        for (key, what) in &refused {
            self.fail(table.error(key, &format!("{what} {REMEDY}")));
        }
        refused.is_empty()
    }
}

/// The settings of a provider that a file must not have if the user has not named it: the key, and
/// what is refused.
fn refused_settings(
    id: &str,
    spec: &ProviderSpec,
    table: &Table,
    is_variable_set: &dyn Fn(&str) -> bool,
) -> Vec<(&'static str, String)> {
    let mut refused = Vec::new();
    for (key, is_set) in [
        // With a key of its own, its author could see what the user sends.
        ("api_key", spec.api_key.is_some()),
        ("api_key_command", spec.api_key_command.is_some()),
        ("api_key_file", spec.api_key_file.is_some()),
    ] {
        if is_set {
            refused.push((key, key.to_owned()));
        }
    }
    let usual = builtin::key_env(id);
    let names = spec.api_key_env.as_ref();
    let is_foreign = names.is_some_and(|names| names.0.iter().any(|name| !usual.contains(name)));
    let base_url = spec.base_url.as_deref();
    let is_own = base_url.is_none_or(|base_url| builtin::has_address(id, base_url));
    // The author of the file could own the name that replaces the braces in an address.
    let is_replaced = base_url.is_some_and(|base_url| !builtin::has_fixed_address(id, base_url));
    let gets_usual_key = is_own && usual.iter().any(|name| is_variable_set(name));
    let gets_key = names.is_some() || gets_usual_key;
    if is_foreign && !is_replaced {
        refused.push((
            "api_key_env",
            "a key variable of another provider".to_owned(),
        ));
    }
    for (key, is_set) in [
        ("base_url", is_replaced),
        ("proxy", spec.proxy.is_some()),
        ("ca_file", spec.ca_file.is_some()),
    ] {
        if is_set && gets_key {
            refused.push((key, format!("a {key} for a provider with a key")));
        }
    }
    // What a service has by itself stays: whether it is on, what it is asked for, and its models,
    // which no other provider gets.
    let is_service = gets_key || !usual.is_empty();
    for key in [
        "enabled",
        "key_header",
        "key_scheme",
        "key_query",
        "headers",
        "query",
        "body",
        "passthrough",
        "families",
        "models",
    ] {
        if is_service && table.contains_key(key) {
            refused.push((key, format!("{key} of a provider with a key")));
        }
    }
    refused
}
