use registry::builtin;

use super::*;

const EXAMPLE: &str = include_str!("../../../proxy-config.example.toml");

/// The example with its optional keys uncommented: `#key` becomes `key`, while `# prose`
/// stays a comment.
pub(in crate::config) fn uncommented_example() -> String {
    EXAMPLE
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(key) if key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '[') => key,
            _ => line,
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// The keys that a table may have, taken from the error about an unknown one.
pub(in crate::config) fn known_keys(table: &str) -> Vec<String> {
    let error = toml::from_str::<ConfigFile>(&format!("{table}\nno_such_key = 1"))
        .err()
        .unwrap();
    let words: Vec<&str> = error.message().split('`').skip(1).step_by(2).collect();
    assert_eq!(words[0], "no_such_key", "{error}");
    words[1..].iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn the_example_equals_the_defaults() {
    let (example, default) = (
        toml::from_str::<ConfigFile>(EXAMPLE).unwrap(),
        ConfigFile::default(),
    );
    let tables = |file: &ConfigFile| {
        let ConfigFile {
            server,
            codex,
            capture,
            responses,
            history,
            jobs,
            ..
        } = file;
        format!("{server:#?} {codex:#?} {capture:#?} {responses:#?} {history:#?} {jobs:#?}")
    };
    assert_eq!(tables(&example), tables(&default));
    assert!(example.routing == default.routing);
    assert!(example.providers.0.is_empty());
    assert!(example.webhooks.0.is_empty());
}

#[test]
fn the_example_sets_every_default_of_server_and_capture() {
    let table: toml::Table = toml::from_str(EXAMPLE).unwrap();
    let optional: [(&str, &[&str]); 2] = [
        ("server", &["data_dir", "token_env", "token_file", "memory"]),
        ("capture", &[]),
    ];
    for (name, optional) in optional {
        let set = table[name].as_table().unwrap();
        for key in known_keys(&format!("[{name}]")) {
            assert_eq!(
                set.contains_key(&key),
                !optional.contains(&key.as_str()),
                "{key}"
            );
        }
    }
}

#[test]
fn the_example_contains_every_key() {
    let text = uncommented_example();
    let all: toml::Table = toml::from_str(&text).unwrap();
    let provider = &all["providers"]["example"];
    let model = &provider["models"][0];
    for (table, shown) in [
        ("", &toml::Value::Table(all.clone())),
        ("[server]", &all["server"]),
        ("[routing]", &all["routing"]),
        ("[codex]", &all["codex"]),
        ("[capture]", &all["capture"]),
        ("[responses]", &all["responses"]),
        ("[history]", &all["history"]),
        ("[jobs]", &all["jobs"]),
        ("[tools]", &all["tools"]),
        ("[tools.mcp]", &all["tools"]["mcp"]),
        (
            "[tools.mcp.servers.x]",
            &all["tools"]["mcp"]["servers"]["example"],
        ),
        ("[search]", &all["search"]),
        ("[search.browserless]", &all["search"]["browserless"]),
        ("[prompts]", &all["prompts"]),
        ("[workflows]", &all["workflows"]),
        ("[webhooks.x]", &all["webhooks"]["example"]),
        ("[providers.x]", provider),
        ("[providers.x.timeouts]", &provider["timeouts"]),
        ("[providers.x.prompt_cache]", &provider["prompt_cache"]),
        ("[[providers.x.models]]", model),
        (
            "[[providers.x.models]]\n[providers.x.models.price]",
            &model["price"],
        ),
    ] {
        for key in known_keys(table) {
            assert!(shown.get(&key).is_some(), "{table} {key}");
        }
    }
    toml::from_str::<ConfigFile>(&text).unwrap();
}

#[test]
fn the_example_provider_shows_the_defaults() {
    let all: ConfigFile = toml::from_str(&uncommented_example()).unwrap();
    let (id, shown) = all
        .providers
        .0
        .iter()
        .find(|(id, _)| id == "example")
        .unwrap();
    let default = builtin::build(id, toml::Table::new()).unwrap();
    assert_eq!(shown.enabled, default.enabled);
    let (shown, default) = (shown.to_provider(id), default.to_provider(id));
    assert_eq!(shown.dialect.quirks, default.dialect.quirks);
    assert_eq!(shown.timeouts, default.timeouts);
    assert_eq!(shown.prompt_cache, default.prompt_cache);
    assert_eq!(shown.key_required, default.key_required);
    assert_eq!(shown.passthrough, default.passthrough);
    assert_eq!(shown.max_retries, default.max_retries);
    assert_eq!(shown.allow_http, default.allow_http);
    let plain: registry::Model = toml::from_str("id = \"x\"").unwrap();
    let model = &shown.models[0];
    assert_eq!(
        (model.images, model.sampling),
        (plain.images, plain.sampling)
    );
    assert_eq!(model.window, Some(registry::Window::assumed().tokens));
    assert_eq!(
        model.bytes_per_token,
        Some(registry::Model::BYTES_PER_TOKEN)
    );
}
