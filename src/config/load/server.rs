//! Loads `[server]` and `[codex]`. Environment variables override the file, and flags
//! override both.

use std::path::PathBuf;

use tracing_subscriber::EnvFilter;

use super::ConfigLoader;
use crate::config::inputs::Inputs;
use crate::config::settings::{CodexConfig, ServerConfig};
use crate::config::toml_file::{ConfigError, TomlFile};
use crate::config::{address, keys};
use crate::secrets::Secret;

impl ConfigLoader<'_> {
    pub(super) fn server(
        &mut self,
        main: &TomlFile,
        server: &mut ServerConfig,
    ) -> Result<(), ConfigError> {
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
        if let Some(text) = &listen_override {
            server.listen = text.parse().map_err(|_| {
                listen_error(format!("{text:?} is not ADDR:PORT such as 127.0.0.1:8787"))
            })?;
        }
        let in_file = Some(&server.data_dir).filter(|path| !path.as_os_str().is_empty());
        let data_dir = flags.data_dir.clone();
        server.data_dir = data_dir
            .or_else(|| environment.get("RESPONDENT_DATA_DIR").map(PathBuf::from))
            .or_else(|| in_file.map(|path| self.resolve(path)))
            .unwrap_or_else(|| dirs.data.clone());
        if let Some(log) = overridden(&flags.log, "RESPONDENT_LOG") {
            server.log = log;
        }
        EnvFilter::try_new(&server.log)
            .map_err(|error| ConfigError::new(format!("log filter {:?}: {error}", server.log)))?;
        server.token = self.token(main, server)?;
        if address::accepts_remote_clients(server.listen) && server.token.is_none() {
            let why = format!(
                "listening on {} lets other machines in; set token_env or token_file \
                 in [server], or listen on 127.0.0.1",
                server.listen
            );
            return Err(listen_error(why));
        }
        for (key, zero) in [
            ("body_limit", server.body_limit == 0),
            ("max_connections", server.max_connections == 0),
            ("header_timeout", server.header_timeout.is_zero()),
            ("body_timeout", server.body_timeout.is_zero()),
            ("heartbeat", server.heartbeat.is_zero()),
            ("turn_timeout", server.turn_timeout.is_zero()),
        ] {
            if zero {
                return Err(main.error(&["server", key], format!("`{key}` must be above zero")));
            }
        }
        Ok(())
    }

    fn token(
        &mut self,
        main: &TomlFile,
        server: &ServerConfig,
    ) -> Result<Option<Secret>, ConfigError> {
        match (&server.token_env, &server.token_file) {
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
        codex: &mut CodexConfig,
    ) -> Result<(), ConfigError> {
        let Some(path) = codex.instructions_file.as_deref() else {
            return Ok(());
        };
        let path = self.resolve(path);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            let why = format!("instructions_file {}: {error}", path.display());
            main.error(&["codex", "instructions_file"], why)
        })?;
        self.digest.update(text.as_bytes());
        self.config.source_files.push(path);
        codex.instructions = Some(text.into());
        Ok(())
    }
}
