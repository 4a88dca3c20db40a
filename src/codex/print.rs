//! The block for Codex's config.toml that points it at this server.

use std::fmt::Write;
use std::path::Path;

/// The environment variable from which Codex reads the server's token.
pub const KEY_VARIABLE: &str = "RESPONDENT_KEY";

/// The values that the block contains.
#[derive(Debug, Clone, Copy)]
pub struct CodexSetup<'a> {
    /// The server's origin as a client writes it, such as `http://127.0.0.1:8787`.
    pub origin: &'a str,
    /// The model that Codex starts with.
    pub model: &'a str,
    /// Whether the server asks for a token.
    pub token: bool,
    /// The path of the local catalog, if one was written.
    pub catalog: Option<&'a Path>,
    /// Whether shortened tool outputs are kept, so that MCP tools can read them back.
    pub artifacts: bool,
}

/// The block for Codex's config.toml, with comments that say where it goes.
///
/// Codex fetches the model list only if the provider has a key, so `env_key` is set even if
/// the server does not require a token.
pub fn config_block(setup: &CodexSetup<'_>) -> String {
    let base = format!("{}/v1", setup.origin.trim_end_matches('/'));
    let mut out = String::from(
        "# For ~/.codex/config.toml: the first lines above any [table], the tables at the end.\n",
    );
    push_setting(&mut out, "model", setup.model);
    out.push_str("model_provider = \"respondent\"\n");
    match setup.catalog {
        Some(path) => push_setting(&mut out, "model_catalog_json", &path.to_string_lossy()),
        None => out.push_str(
            "# Recommended: `respondent codex catalog` writes a model catalog with the prompt of\n\
             # your own Codex and says which line to add here. Without it Codex gets the models\n\
             # from the server, with a shorter prompt.\n",
        ),
    }
    out.push_str("\n[model_providers.respondent]\n");
    out.push_str(PROVIDER_NAME);
    push_setting(&mut out, "base_url", &base);
    out.push_str("wire_api = \"responses\"\n");
    push_setting(&mut out, "env_key", KEY_VARIABLE);
    push_setting(&mut out, "model_catalog_url", &format!("{base}/models"));
    if setup.artifacts {
        out.push_str(
            "\n# Tools that read back what was shortened of long tool outputs.\n\
             [mcp_servers.respondent]\n",
        );
        let origin = setup.origin.trim_end_matches('/');
        push_setting(&mut out, "url", &format!("{origin}/mcp"));
        // If the variable is named but unset, Codex silently leaves these tools out; so name
        // it only where the server requires the token.
        if setup.token {
            push_setting(&mut out, "bearer_token_env_var", KEY_VARIABLE);
        }
    }
    out.push_str(if setup.token {
        "\n# Before starting Codex: export RESPONDENT_KEY=<the token of this server>\n"
    } else {
        "\n# Before starting Codex: export RESPONDENT_KEY=local\n\
         # This server asks for no token, but Codex reads the model list only with a key set.\n"
    });
    out
}

/// The provider's name decides how Codex 0.169 compacts a long session. With the name
/// `OpenAI` the compaction request is the next turn of the session including its tools, which
/// the provider answers from its prompt cache. With any other name the tools are missing, and
/// the cached prefix begins with them; the server then restores them from its memory of the
/// session, which does not survive a restart. With this name Codex also keeps up to 64,000
/// tokens of the user's messages instead of 20,000, and adds metadata to its items, which the
/// server does not send on. Measured: it changes no other request, tool, header or address.
const PROVIDER_NAME: &str = "\
# The name makes Codex ask for compaction in the form that the provider answers from its\n\
# cache. Nothing is sent to OpenAI: requests go to base_url alone.\n\
name = \"OpenAI\"\n";

fn push_setting(out: &mut String, key: &str, value: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{key} = {}", toml::Value::String(value.to_owned()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(setup: &CodexSetup<'_>) -> toml::Table {
        config_block(setup).parse().unwrap()
    }

    const SETUP: CodexSetup<'_> = CodexSetup {
        origin: "http://127.0.0.1:8787",
        model: "moonshot/kimi-k2.6",
        token: false,
        catalog: None,
        artifacts: true,
    };

    #[test]
    fn the_block_is_toml_that_points_at_the_server() {
        let block = parsed(&SETUP);
        assert_eq!(block["model"].as_str(), Some("moonshot/kimi-k2.6"));
        assert_eq!(block["model_provider"].as_str(), Some("respondent"));
        assert_eq!(block.get("model_catalog_json"), None);
        let provider = &block["model_providers"]["respondent"];
        for (key, value) in [
            ("name", "OpenAI"),
            ("base_url", "http://127.0.0.1:8787/v1"),
            ("wire_api", "responses"),
            ("env_key", KEY_VARIABLE),
            ("model_catalog_url", "http://127.0.0.1:8787/v1/models"),
        ] {
            assert_eq!(provider[key].as_str(), Some(value), "{key}");
        }
    }

    #[test]
    fn the_mcp_server_is_configured_where_artifacts_are_kept() {
        let server = &parsed(&SETUP)["mcp_servers"]["respondent"];
        assert_eq!(server["url"].as_str(), Some("http://127.0.0.1:8787/mcp"));
        assert_eq!(server.get("bearer_token_env_var"), None);
        let guarded = parsed(&CodexSetup {
            token: true,
            ..SETUP
        });
        let server = &guarded["mcp_servers"]["respondent"];
        assert_eq!(server["bearer_token_env_var"].as_str(), Some(KEY_VARIABLE));
        let without = parsed(&CodexSetup {
            artifacts: false,
            ..SETUP
        });
        assert_eq!(without.get("mcp_servers"), None);
    }

    #[test]
    fn the_block_says_which_key_to_export() {
        assert!(config_block(&SETUP).contains("export RESPONDENT_KEY=local"));
        let block = config_block(&CodexSetup {
            token: true,
            ..SETUP
        });
        assert!(block.contains("export RESPONDENT_KEY=<the token of this server>"));
        assert!(block.contains("respondent codex catalog"));
    }

    #[test]
    fn odd_names_are_quoted() {
        let catalog = Path::new("C:\\Users\\\"me\"\\models.json");
        let model = "a\"b\\c\n[x]";
        let block = parsed(&CodexSetup {
            model,
            catalog: Some(catalog),
            ..SETUP
        });
        assert_eq!(block["model"].as_str(), Some(model));
        assert_eq!(block["model_catalog_json"].as_str(), catalog.to_str());
        assert_eq!(block.len(), 5);
    }
}
