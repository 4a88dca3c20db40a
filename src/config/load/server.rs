//! Loads `[server]` and `[codex]`. Environment variables override the file, and flags
//! override both.

use std::hash::Hash;
use std::path::{Path, PathBuf};

use tracing_subscriber::EnvFilter;

use super::ConfigLoader;
use crate::config::inputs::Inputs;
use crate::config::raw::RawServer;
use crate::config::toml_file::{ConfigError, TomlFile};
use crate::config::{CodexConfig, ServerConfig, address, keys};
use crate::secrets::Secret;

impl ConfigLoader<'_> {
    pub(super) fn server(
        &mut self,
        main: &TomlFile,
        raw: RawServer,
    ) -> Result<ServerConfig, ConfigError> {
        let Inputs {
            flags,
            environment,
            dirs,
        } = self.inputs;
        let overridden =
            |flag: &Option<String>, name| flag.clone().or_else(|| environment.get(name));
        let listen_override = overridden(&flags.listen, "RESPONDENT_LISTEN");
        let listen_error = |why: String| match listen_override {
            Some(_) => ConfigError::new(format!("--listen (RESPONDENT_LISTEN): {why}")),
            None => main.error(&["server", "listen"], why),
        };
        let listen = match &listen_override {
            None => raw.listen,
            Some(text) => text.parse().map_err(|_| {
                listen_error(format!("{text:?} is not ADDR:PORT such as 127.0.0.1:8787"))
            })?,
        };
        let data_dir = flags.data_dir.clone();
        let data_dir = data_dir
            .or_else(|| environment.get("RESPONDENT_DATA_DIR").map(PathBuf::from))
            .or_else(|| raw.data_dir.as_deref().map(|path| self.resolve(path)))
            .unwrap_or_else(|| dirs.data.clone());
        let log = overridden(&flags.log, "RESPONDENT_LOG").unwrap_or(raw.log);
        EnvFilter::try_new(&log)
            .map_err(|error| ConfigError::new(format!("log filter {log:?}: {error}")))?;
        let token = self.token(main, raw.token_env.as_deref(), raw.token_file.as_deref())?;
        if address::accepts_remote_clients(listen) && token.is_none() {
            let why = format!(
                "listening on {listen} lets other machines in; set token_env or token_file \
                 in [server], or listen on 127.0.0.1"
            );
            return Err(listen_error(why));
        }
        for (key, zero) in [
            ("body_limit", raw.body_limit == 0),
            ("max_connections", raw.max_connections == 0),
            ("header_timeout", raw.header_timeout.is_zero()),
            ("body_timeout", raw.body_timeout.is_zero()),
            ("heartbeat", raw.heartbeat.is_zero()),
        ] {
            if zero {
                return Err(main.error(&["server", key], format!("`{key}` must be above zero")));
            }
        }
        Ok(ServerConfig {
            listen,
            data_dir,
            allowed_hosts: raw.allowed_hosts,
            allowed_origins: raw.allowed_origins,
            token,
            body_limit: raw.body_limit,
            header_timeout: raw.header_timeout,
            body_timeout: raw.body_timeout,
            grace: raw.grace,
            heartbeat: raw.heartbeat,
            commit_after: raw.commit_after,
            max_connections: raw.max_connections,
            log,
            log_format: raw.log_format,
        })
    }

    fn token(
        &mut self,
        main: &TomlFile,
        variable: Option<&str>,
        file: Option<&Path>,
    ) -> Result<Option<Secret>, ConfigError> {
        match (variable, file) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(main.error(
                &["server", "token_file"],
                "give token_env or token_file, not both",
            )),
            (Some(name), None) => {
                let token = self
                    .inputs
                    .environment
                    .get(name)
                    .as_deref()
                    .and_then(Secret::new);
                let why = || format!("token_env: the environment has no {name}");
                token
                    .map(Some)
                    .ok_or_else(|| main.error(&["server", "token_env"], why()))
            }
            (None, Some(path)) => {
                let path = self.resolve(path);
                let token = keys::read_first_line(&path)
                    .and_then(|token| token.ok_or_else(|| format!("{} is empty", path.display())));
                let token = token.map_err(|why| main.error(&["server", "token_file"], why))?;
                self.add_secret_file(&path);
                Ok(Some(token))
            }
        }
    }

    pub(super) fn codex(
        &mut self,
        main: &TomlFile,
        file: Option<&Path>,
    ) -> Result<CodexConfig, ConfigError> {
        let Some(path) = file.map(|path| self.resolve(path)) else {
            return Ok(CodexConfig::default());
        };
        let text = std::fs::read_to_string(&path).map_err(|error| {
            let why = format!("instructions_file {}: {error}", path.display());
            main.error(&["codex", "instructions_file"], why)
        })?;
        text.hash(&mut self.digest);
        self.source_files.push(path);
        Ok(CodexConfig {
            instructions: Some(text.into()),
        })
    }
}
