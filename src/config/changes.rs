//! What an edit of the configuration has changed, in words for the log.

use std::fmt::Debug;

use super::Config;
use crate::secrets::Secret;

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
    let token = |config: &Config| {
        config
            .server
            .token
            .as_ref()
            .map(Secret::expose)
            .map(str::to_owned)
    };
    for (what, is_changed) in [
        ("aliases", before.aliases != after.aliases),
        ("default_model", before.default_model != after.default_model),
        ("fallbacks", before.fallbacks != after.fallbacks),
        ("the token", token(old) != token(new)),
        ("[server]", differ(&old.server, &new.server)),
        ("[context]", differ(&old.context, &new.context)),
        ("[artifacts]", differ(&old.artifacts, &new.artifacts)),
        ("[capture]", differ(&old.capture, &new.capture)),
        ("[codex]", differ(&old.codex, &new.codex)),
    ] {
        if is_changed {
            changes.push(format!("{what} changed"));
        }
    }
    changes
}

fn provider_changes(old: &Config, new: &Config, changes: &mut Vec<String>) {
    let keys = |config: &Config, id: &str| -> Vec<String> {
        let keys = config.keys.get(id).into_iter().flatten();
        keys.map(|key| key.expose().to_owned()).collect()
    };
    for provider in &new.registry.providers {
        let id = &provider.id;
        match old.registry.provider(id) {
            None => changes.push(format!("provider {id} added")),
            Some(before) if before != provider => changes.push(format!("provider {id} changed")),
            Some(_) if keys(old, id) != keys(new, id) => {
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

/// Whether two tables of settings differ. Their `Debug` form has all settings but no secret.
fn differ(old: &impl Debug, new: &impl Debug) -> bool {
    format!("{old:?}") != format!("{new:?}")
}
