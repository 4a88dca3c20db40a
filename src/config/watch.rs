//! Reloads the configuration while the server runs. The files are polled every two seconds.
//! A valid edit is published; an invalid one is reported once and the old configuration
//! stays in force.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;

use super::changes::changes;
use super::inputs::CONFIG_FILE_NAME;
use super::load::provider_files;
use super::purpose::LoadPurpose;
use super::{Config, ConfigError, ConfigErrors, Inputs, load};

/// How often the files are checked for changes.
pub const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Publishes the live configuration and reloads it when its files change. The server makes
/// one at start and runs it until it exits.
pub struct ConfigWatcher {
    inputs: Inputs,
    purpose: LoadPurpose,
    live: Arc<ArcSwap<Config>>,
    stamps: FileStamps,
}

/// The result of checking the files once.
#[derive(Debug)]
pub enum ReloadOutcome {
    /// No file changed.
    Unchanged,
    /// A new configuration is live.
    Applied {
        /// What is different, such as `provider mine added`.
        changes: Vec<String>,
        /// Its warnings, with one for each changed setting that takes effect only after a
        /// restart.
        warnings: Vec<String>,
    },
    /// The edit is invalid; the old configuration stays.
    Rejected(ConfigErrors),
}

/// Path, modification time and size of each watched file; `None` for one that is absent.
type FileStamps = Vec<(PathBuf, Option<(SystemTime, u64)>)>;

impl ConfigWatcher {
    /// Watches the files of `config`, which was loaded from `inputs` for `purpose`.
    pub fn new(inputs: Inputs, purpose: LoadPurpose, config: Config) -> Self {
        let stamps = file_stamps(&inputs, purpose, &config);
        Self {
            inputs,
            purpose,
            live: Arc::new(ArcSwap::from_pointee(config)),
            stamps,
        }
    }

    /// The live configuration. Later reloads are visible through the returned handle.
    pub fn live(&self) -> Arc<ArcSwap<Config>> {
        Arc::clone(&self.live)
    }

    /// Checks the files once and reloads if one changed. Blocks: files are read and key
    /// commands are run.
    pub fn poll(&mut self) -> ReloadOutcome {
        let old = self.live.load_full();
        let now = file_stamps(&self.inputs, self.purpose, &old);
        if now == self.stamps {
            return ReloadOutcome::Unchanged;
        }
        self.stamps.clone_from(&now);
        let loaded = load(&self.inputs, self.purpose);
        match loaded.and_then(|new| keep_restart_settings(&old, new).map_err(ConfigErrors::from)) {
            Ok(new) => {
                // Keep the stamps from before the load, so that an edit made while the files
                // were read is noticed at the next poll.
                self.stamps = file_stamps(&self.inputs, self.purpose, &new);
                for (path, stamp) in &mut self.stamps {
                    if let Some((_, before)) = now.iter().find(|(known, _)| known == path) {
                        *stamp = *before;
                    }
                }
                let warnings = new.warnings.clone();
                let changes = changes(&old, &new);
                self.live.store(Arc::new(new));
                ReloadOutcome::Applied { changes, warnings }
            }
            Err(errors) => ReloadOutcome::Rejected(errors),
        }
    }

    /// Polls every `interval` until the future is dropped, and logs the results. Calls
    /// `on_applied` with each new configuration.
    pub async fn run(mut self, interval: Duration, on_applied: impl Fn(&Config) + Send) {
        loop {
            tokio::time::sleep(interval).await;
            let polled = tokio::task::spawn_blocking(move || {
                let outcome = self.poll();
                (self, outcome)
            });
            let Ok((watcher, outcome)) = polled.await else {
                tracing::error!("the configuration is no longer watched");
                return;
            };
            self = watcher;
            match outcome {
                ReloadOutcome::Unchanged => {}
                ReloadOutcome::Applied { changes, warnings } => {
                    on_applied(&self.live.load());
                    let what = match changes.as_slice() {
                        [] => "nothing changed".to_owned(),
                        changes => changes.join(", "),
                    };
                    tracing::info!("configuration reloaded: {what}");
                    for warning in warnings {
                        tracing::warn!("{warning}");
                    }
                }
                ReloadOutcome::Rejected(errors) => {
                    for error in errors.all() {
                        tracing::error!("configuration not changed: {error}");
                    }
                }
            }
        }
    }
}

/// Prepares `new` for the running server: settings that need a restart keep their old value,
/// with a warning for each. Fails if the server cannot run with the result.
fn keep_restart_settings(old: &Config, mut new: Config) -> Result<Config, ConfigError> {
    if old.needs_token() && !new.needs_token() {
        return Err(opened(old));
    }
    if new.sandbox {
        let Some(address) = old.sandbox_address else {
            return Err(ConfigError::new(
                "the offline model starts only with the server; restart it to use that",
            ));
        };
        new.set_sandbox_address(address);
    } else {
        new.sandbox_address = old.sandbox_address;
    }
    new.registry.discovered = Arc::clone(&old.registry.discovered);
    macro_rules! keep {
        ($($setting:ident)*) => {$(
            if new.server.$setting != old.server.$setting {
                let name = stringify!($setting);
                let warning = format!("server.{name} changes only with a restart");
                new.warnings.push(warning);
                new.server.$setting.clone_from(&old.server.$setting);
            }
        )*};
    }
    keep!(listen data_dir max_connections header_timeout log log_format);
    for token in old.clients.seen_tokens() {
        new.clients.add_seen(token.clone());
    }
    Ok(new)
}

/// The mistake of an edit after which no token would be needed any more. It may be half a file.
fn opened(old: &Config) -> ConfigError {
    let token = old.server.token.is_some();
    let token = token.then(|| "the token of the server".to_owned());
    let clients = old.clients.iter().map(|(name, _)| format!("client {name}"));
    let lost: Vec<String> = token.into_iter().chain(clients).collect();
    let lost = lost.join(", ");
    ConfigError {
        file: old.paths.file.clone(),
        ..ConfigError::new(format!(
            "it no longer has {lost}, and without any token everybody could use the server; the previous tokens stay in force: restore them, or restart the server to run it without tokens"
        ))
    }
}

fn file_stamps(inputs: &Inputs, purpose: LoadPurpose, config: &Config) -> FileStamps {
    let found = inputs.config_paths(purpose);
    let mut paths = config.source_files.clone();
    paths.extend(found.file);
    paths.extend([
        inputs.dirs.working.join(CONFIG_FILE_NAME),
        inputs.dirs.config.join(CONFIG_FILE_NAME),
    ]);
    paths.extend(provider_files(&found.providers_dir));
    paths.sort();
    paths.dedup();
    let stamp = |path: PathBuf| {
        let meta = path.metadata().ok();
        let meta = meta.and_then(|meta| Some((meta.modified().ok()?, meta.len())));
        (path, meta)
    };
    paths.into_iter().map(stamp).collect()
}

#[cfg(test)]
mod tests;
