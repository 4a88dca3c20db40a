//! Edits while running: files are looked at every two seconds; a good edit is
//! published, a bad one is reported once and the old configuration stays.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;

use super::inputs::CONFIG_FILE_NAME;
use super::load::provider_files;
use super::{Config, ConfigError, Inputs, load};

/// How often files are looked at.
pub const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// A running configuration and the files it came from.
pub struct ConfigWatcher {
    inputs: Inputs,
    live: Arc<ArcSwap<Config>>,
    stamps: FileStamps,
}

/// What a look found.
#[derive(Debug)]
pub enum ReloadOutcome {
    /// No file changed.
    Unchanged,
    /// A new configuration is live; the warnings are its own and those about
    /// what needs a restart.
    Applied(Vec<String>),
    /// An edit cannot be used.
    Rejected(ConfigError),
}

/// Path, time and size of each file that matters; absent ones count too.
type FileStamps = Vec<(PathBuf, Option<(SystemTime, u64)>)>;

impl ConfigWatcher {
    /// Watches the files of `first`, which was loaded from `inputs`.
    pub fn new(inputs: Inputs, first: Config) -> Self {
        let stamps = file_stamps(&inputs, &first);
        Self {
            inputs,
            live: Arc::new(ArcSwap::from_pointee(first)),
            stamps,
        }
    }

    /// The configuration that is live.
    pub fn live(&self) -> Arc<ArcSwap<Config>> {
        Arc::clone(&self.live)
    }

    /// Looks once. Blocks when something changed: files are read, commands run.
    pub fn poll(&mut self) -> ReloadOutcome {
        let old = self.live.load_full();
        let now = file_stamps(&self.inputs, &old);
        if now == self.stamps {
            return ReloadOutcome::Unchanged;
        }
        self.stamps.clone_from(&now);
        match load(&self.inputs).and_then(|new| keep_restart_settings(&old, new)) {
            Ok(new) => {
                // An edit while the files were read counts as one to come.
                self.stamps = file_stamps(&self.inputs, &new);
                for (path, look) in &mut self.stamps {
                    if let Some((_, before)) = now.iter().find(|(known, _)| known == path) {
                        *look = *before;
                    }
                }
                let warnings = new.warnings.clone();
                self.live.store(Arc::new(new));
                ReloadOutcome::Applied(warnings)
            }
            Err(error) => ReloadOutcome::Rejected(error),
        }
    }

    /// Looks every `interval` until dropped, and logs what it finds. `applied`
    /// is told of each new configuration.
    pub async fn run(mut self, interval: Duration, applied: impl Fn(&Config) + Send) {
        loop {
            tokio::time::sleep(interval).await;
            let looked = tokio::task::spawn_blocking(move || {
                let look = self.poll();
                (self, look)
            });
            let Ok((watch, look)) = looked.await else {
                tracing::error!("the configuration is no longer watched");
                return;
            };
            self = watch;
            match look {
                ReloadOutcome::Unchanged => {}
                ReloadOutcome::Applied(warnings) => {
                    applied(&self.live.load());
                    tracing::info!("configuration changed");
                    for warning in warnings {
                        tracing::warn!("{warning}");
                    }
                }
                ReloadOutcome::Rejected(error) => {
                    tracing::error!("configuration not changed: {error}");
                }
            }
        }
    }
}

/// `new` as far as a running program can follow it.
fn keep_restart_settings(old: &Config, mut new: Config) -> Result<Config, ConfigError> {
    if new.sandbox {
        let Some(address) = old.sandbox_address else {
            return Err(ConfigError::new(
                "the embedded provider starts only with the program; restart to use it",
            ));
        };
        new.set_sandbox_address(address);
    } else {
        new.sandbox_address = old.sandbox_address;
    }
    let mut kept = Vec::new();
    let mut keep = |name: &str, changed: bool| {
        if changed {
            kept.push(format!("server.{name} changes only with a restart"));
        }
    };
    let (was, is) = (&old.server, &mut new.server);
    keep("listen", was.listen != is.listen);
    keep("data_dir", was.data_dir != is.data_dir);
    keep("max_connections", was.max_connections != is.max_connections);
    keep("header_timeout", was.header_timeout != is.header_timeout);
    keep("log", was.log != is.log);
    keep("log_format", was.log_format != is.log_format);
    is.listen = was.listen;
    is.data_dir.clone_from(&was.data_dir);
    is.max_connections = was.max_connections;
    is.header_timeout = was.header_timeout;
    is.log.clone_from(&was.log);
    is.log_format = was.log_format;
    new.warnings.extend(kept);
    if super::address::accepts_remote_clients(new.server.listen) && new.server.token.is_none() {
        return Err(ConfigError::new(
            "the server listens to other machines and needs its token",
        ));
    }
    Ok(new)
}

fn file_stamps(inputs: &Inputs, config: &Config) -> FileStamps {
    let found = inputs.config_paths();
    let places = &inputs.dirs;
    let mut paths = config.source_files.clone();
    paths.extend(found.file);
    paths.extend([
        places.working.join(CONFIG_FILE_NAME),
        places.config.join(CONFIG_FILE_NAME),
    ]);
    paths.extend(provider_files(&found.providers_dir));
    paths.sort();
    paths.dedup();
    let look = |path: PathBuf| {
        let meta = path.metadata().ok();
        let meta = meta.and_then(|meta| Some((meta.modified().ok()?, meta.len())));
        (path, meta)
    };
    paths.into_iter().map(look).collect()
}

#[cfg(test)]
mod tests;
