//! Loads `[server]`. Environment variables override the file, and flags
//! override both.

use std::net::SocketAddr;
use std::path::Path;

use tracing_subscriber::EnvFilter;

use super::ConfigLoader;
use crate::config::error::ConfigError;
use crate::config::settings::ServerConfig;
use crate::config::toml_file::TomlFile;
use crate::config::{TOKEN_VARIABLE, address, callers, keys};
use crate::secrets::{Secret, Token};

impl ConfigLoader<'_> {
    /// `has_clients` says that requests need a token even if the server has none of its own.
    pub(super) fn server(&mut self, main: &TomlFile, server: &mut ServerConfig, has_clients: bool) {
        let flags = &self.inputs.flags;
        let overridden = |flag: &Option<String>, name| {
            let flag = flag.clone();
            flag.or_else(|| self.inputs.environment.get(name))
        };
        let listen = overridden(&flags.listen, "RESPONDENT_LISTEN");
        if let Some(log) = overridden(&flags.log, "RESPONDENT_LOG") {
            server.log = log;
        }
        let in_file = Some(&server.data_dir).filter(|path| !path.as_os_str().is_empty());
        server.data_dir = self
            .inputs
            .path_override(flags.data_dir.as_ref(), "RESPONDENT_DATA_DIR")
            .or_else(|| in_file.map(|path| self.resolve(path)))
            .unwrap_or_else(|| self.inputs.dirs.data.clone());
        // The server tells the path to commands that run in other folders.
        if let Ok(absolute) = std::path::absolute(&server.data_dir) {
            server.data_dir = absolute;
        }
        if let Err(error) = EnvFilter::try_new(&server.log) {
            let why = format!("log filter {:?}: {error}", server.log);
            self.fail(ConfigError::new(why));
        }
        let errors_before = self.errors.len();
        server.token = self.token(main, server);
        let checked = server.token.as_ref();
        if let Some(Err(why)) = checked.map(|token| Token::new(token.expose())) {
            self.fail(ConfigError::new(format!(
                "{why}: the token of the server is 1 to 256 ASCII characters without spaces"
            )));
        }
        let has_token = has_clients || server.token.is_some() || self.errors.len() > errors_before;
        self.listen(main, listen.as_deref(), &mut server.listen, has_token);
        self.callers(main, server, has_token);
        for (key, zero) in [
            ("body_limit", server.body_limit == 0),
            ("max_connections", server.max_connections == 0),
            ("header_timeout", server.header_timeout.is_zero()),
            ("body_timeout", server.body_timeout.is_zero()),
            ("heartbeat", server.heartbeat.is_zero()),
            ("turn_timeout", server.turn_timeout.is_zero()),
            ("websocket_lifetime", server.websocket_lifetime.is_zero()),
        ] {
            if zero {
                self.fail(main.error(&["server", key], format!("`{key}` must be above zero")));
            }
        }
    }

    /// Puts the address of the flag or variable in place of the file's, and checks it.
    fn listen(
        &mut self,
        main: &TomlFile,
        overridden: Option<&str>,
        listen: &mut SocketAddr,
        has_token: bool,
    ) {
        let error = |why: String| match overridden {
            Some(_) => ConfigError::new(format!("--listen (RESPONDENT_LISTEN): {why}")),
            None => main.error(&["server", "listen"], why),
        };
        if let Some(text) = overridden {
            let Some(address) = address::parse_listen(text) else {
                let form = address::LISTEN_FORM;
                return self.fail(error(format!("expected {form}, found {text:?}")));
            };
            *listen = address;
        }
        if address::accepts_remote_clients(*listen) && !has_token {
            self.fail(error(format!(
                "listening on {listen} lets other machines in; set a token with \
                 {TOKEN_VARIABLE}, --token-file, or token_env or token_file in [server], add \
                 [clients], or listen on 127.0.0.1"
            )));
        }
    }

    /// Brings the names and origins that may call into the form that requests have.
    fn callers(&mut self, main: &TomlFile, server: &mut ServerConfig, has_token: bool) {
        for host in &mut server.allowed_hosts {
            match callers::normalize_host(host, has_token) {
                Ok(normal) => *host = normal,
                Err(why) => self.fail(main.error(&["server", "allowed_hosts"], why)),
            }
        }
        for origin in &mut server.allowed_origins {
            match callers::normalize_origin(origin) {
                Ok(normal) => *origin = normal,
                Err(why) => self.fail(main.error(&["server", "allowed_origins"], why)),
            }
        }
    }

    /// The token: of `--token-file`, else of a variable, else the one that the file names. Notes
    /// a mistake if there is none where there should be one.
    fn token(&mut self, main: &TomlFile, server: &ServerConfig) -> Option<Secret> {
        let inputs = self.inputs;
        let flag = inputs.flags.token_file.as_ref();
        if let Some(path) = inputs.path_override(flag, "RESPONDENT_TOKEN_FILE") {
            let path = inputs.dirs.resolve(&inputs.dirs.working, &path);
            return self.token_in_file(&path, |why| {
                ConfigError::new(format!("--token-file (RESPONDENT_TOKEN_FILE): {why}"))
            });
        }
        let variable = |name: &str| {
            inputs
                .environment
                .get(name)
                .as_deref()
                .and_then(Secret::new)
        };
        if let Some(token) = variable(TOKEN_VARIABLE) {
            return Some(token);
        }
        match (&server.token_env, &server.token_file) {
            (None, None) => None,
            (Some(_), Some(_)) => {
                let why = "give token_env or token_file, not both";
                self.fail(main.error(&["server", "token_file"], why));
                None
            }
            // Neither is read: this is refused already.
            (None, Some(_)) | (Some(_), None) if self.config.paths.is_found => None,
            (Some(name), None) => {
                let token = variable(name);
                if token.is_none() {
                    let why = format!("token_env: the environment has no {name}");
                    self.fail(main.error(&["server", "token_env"], why));
                }
                token
            }
            (None, Some(path)) => {
                let path = self.resolve(path);
                self.token_in_file(&path, |why| main.error(&["server", "token_file"], why))
            }
        }
    }

    fn token_in_file(
        &mut self,
        path: &Path,
        error: impl Fn(String) -> ConfigError,
    ) -> Option<Secret> {
        let token = keys::read_first_line(path)
            .and_then(|token| token.ok_or_else(|| format!("{} is empty", path.display())));
        match token {
            Ok(token) => {
                self.add_secret_file(path);
                Some(token)
            }
            Err(why) => {
                self.fail(error(why));
                None
            }
        }
    }
}
