//! What a configuration file may not do if it was found in the working directory. Whoever made
//! the directory may have written it, so it runs no command, reads no other file, sends no key to
//! an address of its own, and has no webhooks.

use registry::{ProviderSpec, builtin};

use super::ConfigLoader;
use super::provider::ProviderTable;
use crate::config::settings::ConfigFile;
use crate::config::toml_file::TomlFile;

/// How each of these refusals ends.
const REMEDY: &str = "is not allowed in a file that was found in the working directory; \
     if you trust the file, name it with --config";

impl ConfigLoader<'_> {
    /// Refuses the settings outside of providers that read or write other files, or take a secret
    /// of the user for the token.
    pub(super) fn distrust_files(&mut self, main: &TomlFile, file: &ConfigFile) {
        if !self.config.paths.is_found {
            return;
        }
        if !file.clients.0.is_empty() {
            // Their tokens are known to whoever wrote the file.
            self.fail(main.error(&["clients"], format!("[clients] {REMEDY}")));
        }
        let has_data_dir = !file.server.data_dir.as_os_str().is_empty();
        for (path, is_set) in [
            (["server", "token_file"], file.server.token_file.is_some()),
            (["server", "token_env"], file.server.token_env.is_some()),
            (["server", "data_dir"], has_data_dir),
            (
                ["codex", "instructions_file"],
                file.codex.instructions_file.is_some(),
            ),
            (["prompts", "folder"], file.prompts.folder.is_some()),
        ] {
            if is_set {
                let [_, key] = path;
                self.fail(main.error(&path, format!("{key} {REMEDY}")));
            }
        }
        for (name, _) in &file.webhooks.0 {
            let path = ["webhooks", name];
            self.fail(main.error(&path, format!("a webhook {REMEDY}")));
        }
    }

    /// Whether the settings of this provider are allowed where they are; those that are not
    /// are refused.
    pub(super) fn trusts(&mut self, table: &ProviderTable) -> bool {
        if !self.config.paths.is_found {
            return true;
        }
        let refused = refused_settings(table.id, &table.spec, &|name| {
            self.inputs.environment.get(name).is_some()
        });
        for (key, what) in &refused {
            self.fail(table.error(key, &format!("{what} {REMEDY}")));
        }
        refused.is_empty()
    }
}

/// The settings of a provider that a file must not have if nobody has named it: the key, and
/// what is refused.
fn refused_settings(
    id: &str,
    spec: &ProviderSpec,
    is_variable_set: &dyn Fn(&str) -> bool,
) -> Vec<(&'static str, String)> {
    let mut refused = Vec::new();
    for (key, is_set) in [
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
    // Whoever wrote the file could own the name that replaces the braces in an address.
    let is_replaced = base_url.is_some_and(|base_url| !builtin::has_fixed_address(id, base_url));
    let gets_usual_key = is_own && usual.iter().any(|name| is_variable_set(name));
    let gets_key = names.is_some() || spec.api_key.is_some() || gets_usual_key;
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
    refused
}
