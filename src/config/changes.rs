//! What an edit of the configuration has changed, in words for the log.

use super::Config;
use super::settings::ServerConfig;

/// The differences between two configurations, such as `provider mine added`. Contains no value.
pub(super) fn changes(old: &Config, new: &Config) -> Vec<String> {
    let mut changes = Vec::new();
    if old.paths.file != new.paths.file {
        changes.push(match &new.paths.file {
            Some(file) => format!("{} is read", file.display()),
            None => "the file is gone".to_owned(),
        });
    }
    provider_changes(old, new, &mut changes);
    let (before, after) = (&old.registry, &new.registry);
    client_changes(old, new, &mut changes);
    // The token is not written in the table.
    let server = |config: &Config| ServerConfig {
        token: None,
        ..config.server.clone()
    };
    for (what, is_changed) in [
        ("aliases", before.aliases != after.aliases),
        ("default_model", before.default_model != after.default_model),
        ("fallbacks", before.fallbacks != after.fallbacks),
        ("the token", old.server.token != new.server.token),
        ("[server]", server(old) != server(new)),
        ("[context]", old.context != new.context),
        ("[artifacts]", old.artifacts != new.artifacts),
        ("[responses]", old.responses != new.responses),
        ("[history]", old.history != new.history),
        ("[jobs]", old.jobs != new.jobs),
        ("[vision]", old.vision != new.vision),
        ("[tools]", old.tools != new.tools),
        ("[tools.mcp]", old.mcp != new.mcp),
        ("[prompts]", old.prompts != new.prompts),
        ("[workflows]", old.workflows != new.workflows),
        ("[webhooks]", old.webhooks != new.webhooks),
        ("[search]", old.search != new.search),
        ("[capture]", old.capture != new.capture),
        ("[codex]", old.codex != new.codex),
    ] {
        if is_changed {
            changes.push(format!("{what} changed"));
        }
    }
    changes
}

fn client_changes(old: &Config, new: &Config, changes: &mut Vec<String>) {
    for (name, client) in new.clients.iter() {
        match old.clients.iter().find(|(known, _)| *known == name) {
            None => changes.push(format!("client {name} added")),
            Some((_, before)) if before != client => {
                changes.push(format!("client {name} changed"));
            }
            Some(_) => {}
        }
    }
    for (name, _) in old.clients.iter() {
        if !new.clients.is_owner(name) {
            changes.push(format!("client {name} removed"));
        }
    }
}

fn provider_changes(old: &Config, new: &Config, changes: &mut Vec<String>) {
    for provider in &new.registry.providers {
        let id = &provider.id;
        match old.registry.provider(id) {
            None => changes.push(format!("provider {id} added")),
            Some(before) if before != provider => changes.push(format!("provider {id} changed")),
            Some(_) if old.keys.get(id) != new.keys.get(id) => {
                changes.push(format!("keys of provider {id} changed"));
            }
            Some(_) => {}
        }
    }
    for provider in &old.registry.providers {
        if new.registry.provider(&provider.id).is_none() {
            changes.push(format!("provider {} removed", provider.id));
        }
    }
    let order = |config: &Config, other: &Config| -> Vec<String> {
        let ids = config.registry.providers.iter().map(|known| &known.id);
        let common = ids.filter(|id| other.registry.provider(id).is_some());
        common.cloned().collect()
    };
    if order(old, new) != order(new, old) {
        changes.push("order of providers changed".to_owned());
    }
}
