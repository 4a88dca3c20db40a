//! Loads `[codex]`.

use super::ConfigLoader;
use crate::config::settings::CodexConfig;
use crate::config::toml_file::TomlFile;

/// The settings that Codex has beside the roles in its table of agents.
const OTHER_SETTINGS: [&str; 8] = [
    "default_subagent_model",
    "default_subagent_reasoning_effort",
    "enabled",
    "interrupt_message",
    "job_max_runtime_seconds",
    "max_concurrent_threads_per_session",
    "max_depth",
    "max_threads",
];

impl ConfigLoader<'_> {
    /// Reads the file with the instructions.
    pub(super) fn codex_instructions(&mut self, main: &TomlFile, codex: &mut CodexConfig) {
        let Some(path) = codex.instructions_file.as_deref() else {
            return;
        };
        let path = self.resolve(path);
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                self.digest.update(text.as_bytes());
                self.config.source_files.push(path);
                codex.instructions = Some(text.into());
            }
            Err(error) => {
                let why = format!("instructions_file {}: {error}", path.display());
                self.fail(main.error(&["codex", "instructions_file"], why));
            }
        }
    }

    /// Checks the models of sub-agents. One whose provider is off is left out with a warning,
    /// because that provider may only lack its key.
    pub(super) fn codex_agents(&mut self, main: &TomlFile, codex: &mut CodexConfig) {
        for role in codex.agents.keys().filter(|role| !can_be_role(role)) {
            let message = format!(
                "`{role}` cannot be the name of a role: it has letters, digits, `-` and `_`, and \
                 is no setting of Codex's"
            );
            self.fail(main.error(&["codex", "agents", role], message));
        }
        if self.has_bad_provider {
            return;
        }
        codex.agents.retain(|role, model| {
            let Some(unresolved) = self.config.registry.check_name(model) else {
                return true;
            };
            let message = format!("`{role}` of [codex.agents]: {unresolved}");
            if unresolved.is_off {
                self.warn(format!("{message}, so it is left out"));
            } else {
                self.fail(main.error(&["codex", "agents", role], message));
            }
            false
        });
    }
}

/// Whether a role can have this name: it is part of the name of a file, and a key of Codex's.
fn can_be_role(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !name.is_empty() && name.bytes().all(is_allowed) && !OTHER_SETTINGS.contains(&name)
}
