//! Loads `[clients.<name>]`.

use registry::lists::Pairs;

use super::ConfigLoader;
use crate::config::clients::{Client, ClientEntry, ClientLimits, check_name};
use crate::config::error::ConfigError;
use crate::config::settings::ServerConfig;
use crate::config::toml_file::TomlFile;
use crate::secrets::TokenHash;

/// What shells and scripts write for a variable that is not set. A line end may follow.
const NOTHINGS: [&str; 7] = ["", " ", "\"\"", "null", "undefined", "None", "nil"];

/// The text of this hash, if it is the hash of a text that means "no token".
fn nothing_of(hash: TokenHash) -> Option<String> {
    let ends = ["", "\n", "\r\n"];
    let mut texts = NOTHINGS
        .iter()
        .flat_map(|text| ends.map(|end| format!("{text}{end}")));
    texts.find(|text| TokenHash::of(text.as_bytes()) == hash)
}

impl ConfigLoader<'_> {
    /// Checks the clients. `server` has the token of the server.
    pub(super) fn clients(
        &mut self,
        main: &TomlFile,
        server: &ServerConfig,
        entries: Pairs<ClientEntry>,
    ) {
        let of_server = server.token.as_ref();
        let of_server = of_server.map(|token| TokenHash::of(token.expose().as_bytes()));
        for (name, entry) in entries.0 {
            let error = |key: &str, why: String| -> ConfigError {
                main.error(&["clients", &name, key], format!("client {name}: {why}"))
            };
            if let Err(why) = check_name(&name) {
                self.fail(main.error(&["clients", &name], why));
                continue;
            }
            let limits = ClientLimits {
                concurrent_requests: entry.max_concurrent_requests,
                tokens_per_day: entry.max_tokens_per_day,
                cost_per_day: entry.max_cost_per_day,
                searches_per_day: entry.max_searches_per_day,
                pages_per_day: entry.max_pages_per_day,
            };
            let cost = limits.cost_per_day;
            for (key, is_wrong) in [
                (
                    "max_concurrent_requests",
                    limits.concurrent_requests == Some(0),
                ),
                ("max_tokens_per_day", limits.tokens_per_day == Some(0)),
                (
                    "max_cost_per_day",
                    cost.is_some_and(|cost| !(cost > 0.0 && cost.is_finite())),
                ),
                ("max_searches_per_day", limits.searches_per_day == Some(0)),
                ("max_pages_per_day", limits.pages_per_day == Some(0)),
            ] {
                if is_wrong {
                    self.fail(error(
                        key,
                        format!("`{key}` must be above zero; leave it out for no limit"),
                    ));
                }
            }
            let Some(token) = TokenHash::from_hex(&entry.token_sha256) else {
                let why = "token_sha256 is the SHA-256 of a token, 64 hexadecimal digits; `respondent clients add` makes both";
                self.fail(error("token_sha256", why.to_owned()));
                continue;
            };
            if let Some(text) = nothing_of(token) {
                let why = format!(
                    "token_sha256 is the hash of {text:?}, which is no token: the variable with the token was empty when the hash was made; `respondent clients add` makes both"
                );
                self.fail(error("token_sha256", why));
                continue;
            }
            if Some(token) == of_server {
                let why = "this is the token of the server itself; every client needs its own";
                self.fail(error("token_sha256", why.to_owned()));
                continue;
            }
            if let Err(other) = self.config.clients.add(&name, Client { token, limits }) {
                let why =
                    format!("this is the token of client {other} too; every client needs its own");
                self.fail(error("token_sha256", why));
            }
        }
        if !self.config.clients.is_empty() && server.token.is_none() {
            self.warn(
                "there are clients, but the server has no token of its own: nobody may use the routes about the whole server, such as /metrics, and commands such as `respondent status`; set RESPONDENT_TOKEN, or token_env or token_file in [server]"
                    .to_owned(),
            );
        }
    }
}
