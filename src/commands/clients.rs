//! `respondent clients`: tokens for those who share a server.

use anyhow::Context;
use comfy_table::CellAlignment::{Left, Right};
use serde::Serialize;
use toml_edit::DocumentMut;

use super::{print_json, print_text};
use crate::clock::{Random as _, System};
use crate::codex::change::FileChange;
use crate::config::Config;
use crate::config::clients::check_name;
use crate::log::table;
use crate::secrets::TokenHash;

/// What tokens begin with. The redactor knows it.
const PREFIX: &str = "rsp_";

/// Makes a token for a client with this name. Returns it and the lines of the configuration that
/// let it in; nothing is written anywhere.
pub fn add(name: &str) -> anyhow::Result<String> {
    check_name(name).map_err(|why| anyhow::anyhow!(why))?;
    let token = format!("{PREFIX}{:032x}{:032x}", System.bits(), System.bits());
    let hash = TokenHash::of(token.as_bytes());
    Ok(format!(
        "\
# The token of {name}, which is shown only now. Set it as RESPONDENT_TOKEN where Codex runs,
# or as the API key of an SDK:
#
#   {token}
#
# The lines for the configuration file of the server, which contain only its hash:

[clients.{name}]
# max_concurrent_requests = 4
# max_tokens_per_day = 2_000_000
# max_cost_per_day = 5.0
# max_searches_per_day = 500
# max_pages_per_day = 1_000
token_sha256 = \"{hash}\"
"
    ))
}

/// A client as `clients list --json` prints it. A limit that is absent is null.
#[derive(Debug, Serialize)]
struct ListedClient<'a> {
    name: &'a str,
    max_concurrent_requests: Option<usize>,
    max_tokens_per_day: Option<u64>,
    max_cost_per_day: Option<f64>,
    max_searches_per_day: Option<u64>,
    max_pages_per_day: Option<u64>,
}

/// Prints the clients of the configuration and their limits.
pub fn list(config: &Config, json: bool) -> anyhow::Result<()> {
    let clients = config.clients.iter().map(|(name, client)| {
        let limits = client.limits;
        ListedClient {
            name,
            max_concurrent_requests: limits.concurrent_requests,
            max_tokens_per_day: limits.tokens_per_day,
            max_cost_per_day: limits.cost_per_day,
            max_searches_per_day: limits.searches_per_day,
            max_pages_per_day: limits.pages_per_day,
        }
    });
    let clients: Vec<ListedClient<'_>> = clients.collect();
    if json {
        return print_json(&clients);
    }
    if clients.is_empty() {
        return print_text(
            "There are no clients: whoever may use the server is its operator. \
             `respondent clients add NAME` makes one.\n",
        );
    }
    let rows = clients.iter().map(|client| {
        let count = |limit: Option<u64>| limit.map_or_else(|| "-".to_owned(), |it| it.to_string());
        let cost = client.max_cost_per_day;
        [
            client.name.to_owned(),
            count(client.max_concurrent_requests.map(|it| it as u64)),
            count(client.max_tokens_per_day),
            cost.map_or_else(|| "-".to_owned(), |it| format!("${it}")),
            count(client.max_searches_per_day),
            count(client.max_pages_per_day),
        ]
    });
    let columns = [
        ("client", Left, 6),
        ("at once", Right, 7),
        ("tokens/day", Right, 10),
        ("cost/day", Right, 8),
        ("searches/day", Right, 12),
        ("pages/day", Right, 9),
    ];
    print_text(&table(columns, rows))
}

/// Takes a client out of the configuration file. A running server notices it within seconds; what
/// the client has stored stays.
pub fn remove(config: &Config, name: &str) -> anyhow::Result<String> {
    check_name(name).map_err(|why| anyhow::anyhow!(why))?;
    let no_client = || format!("there is no client {name}; `respondent clients list` lists them");
    let path = config.paths.file.as_ref().with_context(no_client)?;
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    let new = without_client(&text, name)
        .with_context(|| format!("{} is not valid TOML", path.display()))?
        .with_context(no_client)?;
    let change = FileChange::write(path.clone(), new);
    change.check()?;
    change.apply()?;
    let mut done = format!(
        "Removed client {name} from {}. A running server no longer takes its token; what it has \
         stored stays.\n",
        path.display()
    );
    if config.server.token.is_none() && config.clients.iter().count() == 1 {
        done += "No client is left, and the server has no token: a running server keeps the old \
                 tokens until it is restarted, and then takes every request.\n";
    }
    Ok(done)
}

/// The text of a configuration without a client; `None` if it has none of this name.
fn without_client(text: &str, name: &str) -> Result<Option<String>, toml_edit::TomlError> {
    let mut document: DocumentMut = text.parse()?;
    let Some(clients) = document.get_mut("clients") else {
        return Ok(None);
    };
    let Some(clients) = clients.as_table_like_mut() else {
        return Ok(None);
    };
    if clients.remove(name).is_none() {
        return Ok(None);
    }
    if clients.is_empty() {
        document.remove("clients");
    }
    Ok(Some(document.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::ConfigFile;
    use crate::secrets::Redactor;

    #[test]
    fn a_new_token_is_random_and_only_its_hash_is_configured() {
        let text = add("alice").unwrap();
        assert_ne!(add("alice").unwrap(), text);
        let token = text.split_whitespace().find(|it| it.starts_with(PREFIX));
        let token = token.unwrap();
        assert_eq!(token.len(), PREFIX.len() + 64);
        let file: ConfigFile = toml::from_str(&text).unwrap();
        let [(name, client)] = file.clients.0.as_slice() else {
            panic!("{text}")
        };
        let hash = TokenHash::of(token.as_bytes()).to_string();
        assert_eq!((&**name, &client.token_sha256), ("alice", &hash));
        // A server that has never seen the token redacts it, too.
        let said = format!("I set {token} there");
        assert_eq!(Redactor::default().redact(&said), "I set [redacted] there");
        assert!(add("local").is_err() && add("a b").is_err());
    }

    #[test]
    fn a_client_is_removed_with_its_lines_and_nothing_else() {
        let rest = "# Mine.\n[server]\nlisten = \"127.0.0.1:1\" # here\n";
        let (alice, bob) = (add("alice").unwrap(), add("bob").unwrap());
        let file = format!("{rest}\n{alice}\n{bob}");
        let removed = |text: &str, name: &str| without_client(text, name).unwrap();
        let without = removed(&file, "alice").unwrap();
        assert!(without.starts_with(rest) && without.contains("[clients.bob]"));
        assert!(!without.contains("alice"), "{without}");
        assert_eq!(removed(&without, "alice"), None);
        assert_eq!(removed(&without, "bob").as_deref(), Some(rest));
        let inline = "clients = { a = { token_sha256 = \"x\" }, b = { token_sha256 = \"y\" } }\n";
        let without = removed(inline, "b").unwrap();
        assert!(without.contains("a = {") && !without.contains("b = {"));
        assert_eq!(removed("[server]\n", "a"), None);
    }
}
