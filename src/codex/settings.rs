//! The settings that point Codex at this server.

use std::borrow::Cow;
use std::path::Path;

use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::agents::{self, CodexAgents};
use crate::config::search::SearchMode;
use crate::secrets::Secret;

/// The id of our provider and of our MCP server in Codex's configuration. Codex files its sessions
/// by the id of their provider, so another id would hide those of earlier versions.
pub const ID: &str = "respondent";

/// The settings outside of any table.
pub(super) const KEYS: [&str; 5] = [
    "model",
    "model_provider",
    "model_catalog_json",
    "web_search",
    "suppress_unstable_features_warning",
];

/// The groups that hold a setting of ours, and its key there: a table, or a boolean in `features`.
pub(super) const GROUPS: [(&str, &str); 3] = [
    ("model_providers", ID),
    ("mcp_servers", ID),
    ("features", STANDALONE_SEARCH),
];

/// The feature with which Codex runs the searches of its models itself, and asks this server for
/// them: `web.run` and `/v1/alpha/search`.
pub const STANDALONE_SEARCH: &str = "standalone_web_search";

/// The group with the roles of sub-agents, and the key of the model of those that ask for none.
const AGENTS: (&str, &str) = ("agents", "default_subagent_model");

/// The group and the key there of each setting in a document that can be one of ours: those of
/// [`GROUPS`], and those of sub-agents.
pub(super) fn grouped_keys(document: &DocumentMut) -> Vec<(&'static str, Cow<'static, str>)> {
    let (group, default) = AGENTS;
    let fixed = GROUPS.into_iter().chain([(group, default)]);
    let fixed = fixed.map(|(group, key)| (group, Cow::Borrowed(key)));
    let roles = document.get(group).and_then(Item::as_table_like);
    let roles = roles.into_iter().flat_map(TableLike::iter);
    let roles = roles.filter(|(_, role)| agents::is_ours(role));
    let roles = roles.map(|(role, _)| (group, Cow::Owned(role.to_owned())));
    fixed.chain(roles).collect()
}

/// A group without tables. Each table in it has a header of its own, and the group has none.
pub(super) fn empty_group() -> Table {
    let mut group = Table::new();
    group.set_implicit(true);
    group
}

/// The key that Codex sends to a server that asks for none. Codex reads the list of models only
/// from a provider that has a key.
const NO_KEY: &str = "local";

/// The token that the server asks for, and how Codex gets it.
#[derive(Debug, Clone, Copy)]
pub enum CodexToken<'a> {
    /// The server asks for none.
    None,
    /// The token is part of the settings, which only the user can read.
    Written(&'a Secret),
    /// The token is in this environment variable of Codex. The settings are arguments of a process,
    /// which every user of the machine can read.
    Variable(&'static str),
}

/// The values of the settings.
#[derive(Debug, Clone, Copy)]
pub struct CodexSettings<'a> {
    /// The server's origin as a client writes it, such as `http://127.0.0.1:9797`.
    pub origin: &'a str,
    /// The model that Codex starts with.
    pub model: &'a str,
    /// The token that the server asks for.
    pub token: CodexToken<'a>,
    /// The file of the model catalog. Without one Codex asks the server for its models.
    pub catalog: Option<&'a Path>,
    /// Whether shortened tool outputs are kept, so that MCP tools can read them back.
    pub artifacts: bool,
    /// How Codex searches the web.
    pub search: CodexSearch,
    /// The models of its sub-agents; `None` leaves them to Codex.
    pub agents: Option<&'a CodexAgents>,
}

/// How Codex searches the web.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodexSearch {
    /// Not at all: the server does not search.
    Off,
    /// The model calls `web_search`, which runs in the server.
    Hosted,
    /// The model calls `web.run`, for which Codex asks the server.
    Standalone,
}

impl CodexSearch {
    /// How it searches with a server of this mode. `knows_standalone` is whether this Codex can ask
    /// the server for searches.
    pub fn new(mode: SearchMode, knows_standalone: bool) -> Self {
        match mode {
            SearchMode::Off => Self::Off,
            SearchMode::Auto | SearchMode::Proxy if knows_standalone => Self::Standalone,
            SearchMode::Auto | SearchMode::Native | SearchMode::Proxy => Self::Hosted,
        }
    }
}

impl CodexSettings<'_> {
    /// The settings as a document of their own, with comments.
    pub fn document(&self) -> DocumentMut {
        let mut document = DocumentMut::new();
        for (key, value) in self.values() {
            document.insert(key, toml_edit::value(value));
        }
        for ((group, key), mut settings) in self.groups() {
            if let ("mcp_servers", Item::Table(settings)) = (group, &mut settings) {
                settings.decor_mut().set_prefix(MCP_COMMENT);
            }
            let parent = document.entry(group);
            let parent = parent.or_insert_with(|| Item::Table(empty_group()));
            if let Item::Table(parent) = parent {
                parent.insert(&key, settings);
            }
        }
        document
    }

    /// The settings as values of Codex's option `-c`, which override its configuration for one run.
    pub fn overrides(&self) -> Vec<String> {
        let values = self.values().into_iter();
        let values = values.map(|(key, value)| format!("{key}={value}"));
        let groups = self.groups().into_iter().map(|((group, key), settings)| {
            // Each is a table or a value, so that the conversion cannot fail.
            let mut settings = settings.into_value().unwrap_or_else(|_| false.into());
            if let Value::InlineTable(settings) = &mut settings {
                for (mut key, value) in settings.iter_mut() {
                    key.leaf_decor_mut().clear();
                    value.decor_mut().clear();
                }
            }
            format!("{group}.{key}={settings}")
        });
        values.chain(groups).collect()
    }

    /// The settings outside of tables.
    fn values(&self) -> Vec<(&'static str, Value)> {
        let mut values = vec![("model", self.model.into()), ("model_provider", ID.into())];
        if let Some(catalog) = self.catalog {
            let catalog = catalog.to_string_lossy();
            values.push(("model_catalog_json", catalog.as_ref().into()));
        }
        // Without `live` Codex asks for what was found earlier only. While the server does not
        // search, asking for the tool costs tokens for nothing.
        let mode = match self.search {
            CodexSearch::Off => "disabled",
            CodexSearch::Hosted | CodexSearch::Standalone => "live",
        };
        values.push(("web_search", mode.into()));
        if self.search == CodexSearch::Standalone {
            // Codex warns of an unstable feature at every start.
            values.push(("suppress_unstable_features_warning", true.into()));
        }
        values
    }

    /// What is in groups, with the name of the group and its key there.
    fn groups(&self) -> Vec<((&'static str, Cow<'static, str>), Item)> {
        let [of_providers, of_servers, of_features] = GROUPS;
        let origin = self.origin.trim_end_matches('/');
        let mut provider = Table::new();
        provider.insert("name", toml_edit::value(PROVIDER_NAME));
        if let Some(mut name) = provider.key_mut("name") {
            name.leaf_decor_mut().set_prefix(NAME_COMMENT);
        }
        provider.insert("base_url", toml_edit::value(format!("{origin}/v1")));
        provider.insert("wire_api", toml_edit::value("responses"));
        // A token in a file is not read from the environment: Codex keeps a server in the
        // background that has the environment of the first start, and its desktop app reads no
        // shell profile. With overrides Codex 0.169 does not use that server.
        let (key, token) = match self.token {
            CodexToken::None => ("experimental_bearer_token", NO_KEY),
            CodexToken::Written(token) => ("experimental_bearer_token", token.expose()),
            CodexToken::Variable(name) => ("env_key", name),
        };
        provider.insert(key, toml_edit::value(token));
        provider.insert(
            "model_catalog_url",
            toml_edit::value(format!("{origin}/v1/models")),
        );
        if self.search == CodexSearch::Standalone {
            provider.insert("supports_standalone_web_search", toml_edit::value(true));
        }
        let mut groups = vec![(of_providers, Item::Table(provider))];
        if self.artifacts {
            let mut server = Table::new();
            server.insert("url", toml_edit::value(format!("{origin}/mcp")));
            match self.token {
                CodexToken::None => {}
                CodexToken::Written(token) => {
                    let mut headers = InlineTable::new();
                    headers.insert("Authorization", format!("Bearer {}", token.expose()).into());
                    server.insert("http_headers", toml_edit::value(headers));
                }
                CodexToken::Variable(name) => {
                    server.insert("bearer_token_env_var", toml_edit::value(name));
                }
            }
            groups.push((of_servers, Item::Table(server)));
        }
        if self.search == CodexSearch::Standalone {
            groups.push((of_features, toml_edit::value(true)));
        }
        let mut groups: Vec<_> = groups
            .into_iter()
            .map(|((group, key), settings)| ((group, Cow::Borrowed(key)), settings))
            .collect();
        let (group, default) = AGENTS;
        if let Some(model) = self.agents.and_then(|agents| agents.default.as_deref()) {
            groups.push(((group, default.into()), toml_edit::value(model)));
        }
        for role in self.agents.into_iter().flat_map(|agents| &agents.roles) {
            let path = role.path.to_string_lossy();
            let mut table = Table::new();
            table.insert("config_file", toml_edit::value(path.as_ref()));
            groups.push(((group, role.name.clone().into()), Item::Table(table)));
        }
        groups
    }
}

/// The provider's name decides how Codex 0.169 compacts a long session. With the name
/// `OpenAI` the compaction request is the next turn of the session including its tools, which
/// the provider answers from its prompt cache. With any other name the tools are missing, and
/// the cached prefix begins with them; the server then restores them from its memory of the
/// session, which does not survive a restart. With this name Codex also keeps up to 64,000
/// tokens of the user's messages instead of 20,000, and adds metadata to its items, which the
/// server does not send on. Its list of models shows a warning that the address of OpenAI was
/// changed. Measured: it changes no other request, tool, header or address.
const PROVIDER_NAME: &str = "OpenAI";

const NAME_COMMENT: &str = "\
# With this name Codex compacts long sessions in a way that the provider's prompt cache serves.\n\
# Requests go to base_url, and nothing is sent to OpenAI.\n";

const MCP_COMMENT: &str =
    "\n# Tools with which the model reads the full text of tool outputs that were shortened.\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codex::agents::AgentRole;

    const SETTINGS: CodexSettings<'_> = CodexSettings {
        origin: "http://127.0.0.1:9797",
        model: "moonshot/kimi-k2.6",
        token: CodexToken::None,
        catalog: None,
        artifacts: true,
        search: CodexSearch::Off,
        agents: None,
    };

    fn parsed(settings: &CodexSettings<'_>) -> toml::Table {
        settings.document().to_string().parse().unwrap()
    }

    #[test]
    fn the_settings_point_at_the_server() {
        let document = parsed(&SETTINGS);
        assert_eq!(document["model"].as_str(), Some("moonshot/kimi-k2.6"));
        assert_eq!(document["model_provider"].as_str(), Some("respondent"));
        assert_eq!(document["web_search"].as_str(), Some("disabled"));
        assert_eq!(document.get("model_catalog_json"), None);
        let provider = &document["model_providers"]["respondent"];
        for (key, value) in [
            ("name", "OpenAI"),
            ("base_url", "http://127.0.0.1:9797/v1"),
            ("wire_api", "responses"),
            ("experimental_bearer_token", "local"),
            ("model_catalog_url", "http://127.0.0.1:9797/v1/models"),
        ] {
            assert_eq!(provider[key].as_str(), Some(value), "{key}");
        }
        let server = &document["mcp_servers"]["respondent"];
        assert_eq!(server["url"].as_str(), Some("http://127.0.0.1:9797/mcp"));
        assert_eq!(server.get("http_headers"), None);
    }

    #[test]
    fn a_token_goes_into_the_provider_and_the_mcp_server() {
        let token = Secret::new("s3cret").unwrap();
        let guarded = CodexSettings {
            token: CodexToken::Written(&token),
            ..SETTINGS
        };
        let document = parsed(&guarded);
        let provider = &document["model_providers"]["respondent"];
        assert_eq!(
            provider["experimental_bearer_token"].as_str(),
            Some("s3cret")
        );
        let headers = &document["mcp_servers"]["respondent"]["http_headers"];
        assert_eq!(headers["Authorization"].as_str(), Some("Bearer s3cret"));
    }

    #[test]
    fn the_deployment_guide_shows_the_settings() {
        const GUIDE: &str = include_str!("../../docs/deployment.md");
        let blocks = GUIDE.split("```toml\n").skip(1);
        let blocks = blocks.filter_map(|block| block.split("```").next());
        let shown: Vec<&str> = blocks
            .filter(|block| block.contains("model_provider"))
            .collect();
        let token = Secret::new("TOKEN").unwrap();
        let settings = CodexSettings {
            origin: "https://respondent.example.com",
            model: "kimi-k3",
            token: CodexToken::Written(&token),
            search: CodexSearch::Hosted,
            ..SETTINGS
        };
        let [shown] = shown[..] else {
            panic!("the guide shows {} profiles", shown.len());
        };
        let shown: toml::Table = shown.parse().unwrap();
        assert_eq!(shown, parsed(&settings));
    }

    #[test]
    fn the_mcp_server_is_configured_where_artifacts_are_kept() {
        assert!(parsed(&SETTINGS).get("mcp_servers").is_some());
        let document = parsed(&CodexSettings {
            artifacts: false,
            ..SETTINGS
        });
        assert_eq!(document.get("mcp_servers"), None);
    }

    #[test]
    fn searches_are_asked_of_the_server_where_both_can() {
        let document = parsed(&CodexSettings {
            search: CodexSearch::Standalone,
            ..SETTINGS
        });
        assert_eq!(document["web_search"].as_str(), Some("live"));
        let is_on = |value: &toml::Value| value.as_bool() == Some(true);
        assert!(is_on(&document["suppress_unstable_features_warning"]));
        assert!(is_on(&document["features"]["standalone_web_search"]));
        let provider = &document["model_providers"]["respondent"];
        assert!(is_on(&provider["supports_standalone_web_search"]));
        let hosted = parsed(&CodexSettings {
            search: CodexSearch::Hosted,
            ..SETTINGS
        });
        assert_eq!(hosted["web_search"].as_str(), Some("live"));
        assert_eq!(hosted.get("features"), None);
        let without = parsed(&SETTINGS);
        assert_eq!(without.get("features"), None);
        assert_eq!(without.get("suppress_unstable_features_warning"), None);
        let provider = &without["model_providers"]["respondent"];
        assert_eq!(provider.get("supports_standalone_web_search"), None);
    }

    #[test]
    fn odd_names_are_quoted() {
        let catalog = Path::new("C:\\Users\\\"me\"\\models.json");
        let model = "a\"b\\c\n[x]";
        let document = parsed(&CodexSettings {
            model,
            catalog: Some(catalog),
            ..SETTINGS
        });
        assert_eq!(document["model"].as_str(), Some(model));
        assert_eq!(document["model_catalog_json"].as_str(), catalog.to_str());
    }

    #[test]
    fn overrides_are_the_same_settings() {
        let token = Secret::new("s3cret").unwrap();
        let agents = CodexAgents {
            default: Some("small".to_owned()),
            roles: vec![AgentRole {
                name: "code-reviewer_2".to_owned(),
                path: "/tmp/x/\"a\".toml".into(),
                text: String::new(),
            }],
            of_user: Vec::new(),
        };
        for token in [CodexToken::None, CodexToken::Written(&token)] {
            let settings = CodexSettings {
                agents: Some(&agents),
                model: "a\"b",
                token,
                catalog: Some(Path::new("/tmp/x/models.json")),
                search: CodexSearch::Standalone,
                ..SETTINGS
            };
            let overrides = settings.overrides();
            assert!(overrides.iter().all(|line| !line.contains('\n')));
            let together: toml::Table = overrides.join("\n").parse().unwrap();
            assert_eq!(together, parsed(&settings));
        }
    }

    #[test]
    fn a_token_in_the_environment_is_in_no_override() {
        let settings = CodexSettings {
            token: CodexToken::Variable("RESPONDENT_TOKEN"),
            ..SETTINGS
        };
        let together: toml::Table = settings.overrides().join("\n").parse().unwrap();
        let provider = &together["model_providers"]["respondent"];
        assert_eq!(provider["env_key"].as_str(), Some("RESPONDENT_TOKEN"));
        assert_eq!(provider.get("experimental_bearer_token"), None);
        let server = &together["mcp_servers"]["respondent"];
        assert_eq!(
            server["bearer_token_env_var"].as_str(),
            Some("RESPONDENT_TOKEN")
        );
    }
}
