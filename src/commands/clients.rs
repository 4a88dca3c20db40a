//! `respondent clients`: tokens for those who share a server.

use crate::clock::{Random as _, System};
use crate::config::clients::check_name;
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
token_sha256 = \"{hash}\"
# max_concurrent_requests = 4
# max_tokens_per_day = 2_000_000
# max_cost_per_day = 5.0
# max_searches_per_day = 500
# max_pages_per_day = 1_000
"
    ))
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
}
