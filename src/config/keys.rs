//! Reads a provider's API keys from the environment, a file, the output of a command, or
//! the configuration itself.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use registry::ProviderSpec;
use registry::lists::OneOrMany;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;

use super::Environment;
use crate::secrets::Secret;

/// Time limit for a command that prints keys.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum bytes that are read from a key file or a command's output.
const MAX_INPUT_BYTES: u64 = 64 << 10;

/// Where keys come from, for `respondent check`, for messages and for bundles. Never contains a
/// key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyOrigin {
    /// Environment variables, by name.
    Environment(Vec<String>),
    /// A file.
    File(PathBuf),
    /// A command.
    Command,
    /// The configuration file itself.
    Literal,
}

impl std::fmt::Display for KeyOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Environment(names) => write!(f, "environment {}", names.join(", ")),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Command => f.write_str("command"),
            Self::Literal => f.write_str("configuration file"),
        }
    }
}

/// API keys of one provider, or secrets of one webhook, and where they come from.
#[derive(Debug)]
pub struct ApiKeys {
    /// The keys, at least one; none if they are in a file or come from a command and were not to
    /// be read.
    pub secrets: Vec<Secret>,
    /// Where they come from.
    pub origin: KeyOrigin,
    /// The setting that says so; empty if none does.
    pub setting: &'static str,
    /// Variables that are named and unset.
    pub unset_variables: Vec<String>,
}

/// Why keys cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum KeyError {
    /// There is no key where the configuration says that one is: the variable is unset, the file
    /// cannot be read, the command has failed. The provider cannot be used until that changes.
    Missing(String),
    /// The configuration has a mistake: the name of the setting at fault, and the reason.
    Mistake(&'static str, String),
}

/// The settings that say where keys are: each with its name and its value. At most one is set.
pub struct KeySources<'a> {
    /// Environment variables.
    pub environment: (&'static str, Option<&'a OneOrMany>),
    /// A file with a key in each line.
    pub file: (&'static str, Option<&'a Path>),
    /// A command that prints a key in each line.
    pub command: (&'static str, Option<&'a OneOrMany>),
    /// The keys themselves.
    pub literal: (&'static str, Option<&'a OneOrMany>),
}

impl<'a> From<&'a ProviderSpec> for KeySources<'a> {
    fn from(spec: &'a ProviderSpec) -> Self {
        Self {
            environment: ("api_key_env", spec.api_key_env.as_ref()),
            file: ("api_key_file", spec.api_key_file.as_deref()),
            command: ("api_key_command", spec.api_key_command.as_ref()),
            literal: ("api_key", spec.api_key.as_ref()),
        }
    }
}

/// The API keys that these settings configure; `None` if they configure none. `resolve` turns the
/// path of a file into one that can be opened. If `reads_keys` is false, no key file is read and no
/// command is run, and the keys from there are absent. Otherwise this blocks.
pub fn api_keys(
    sources: &KeySources<'_>,
    environment: &dyn Environment,
    reads_keys: bool,
    resolve: impl Fn(&Path) -> PathBuf,
) -> Result<Option<ApiKeys>, KeyError> {
    let set = [
        (sources.environment.0, sources.environment.1.is_some()),
        (sources.file.0, sources.file.1.is_some()),
        (sources.command.0, sources.command.1.is_some()),
        (sources.literal.0, sources.literal.1.is_some()),
    ];
    let mut configured = set
        .iter()
        .filter(|(_, is_set)| *is_set)
        .map(|(setting, _)| *setting);
    if let (Some(first), Some(second)) = (configured.next(), configured.next()) {
        let why = format!("give {first} or {second}, not both");
        return Err(KeyError::Mistake(second, why));
    }
    let (setting, keys) = if let (setting, Some(names)) = sources.environment {
        (setting, from_environment(&names.0, environment)?)
    } else if let (setting, Some(path)) = sources.file {
        let path = resolve(path);
        let origin = KeyOrigin::File(path.clone());
        if !reads_keys {
            return Ok(Some(with_origin(Vec::new(), origin)));
        }
        let missing = |why| KeyError::Missing(format!("{setting}: {why}"));
        let secrets = parse_lines(&read_limited(&path).map_err(missing)?);
        if secrets.is_empty() {
            return Err(missing(format!("{} holds no key", path.display())));
        }
        (setting, with_origin(secrets, origin))
    } else if let (setting, Some(command)) = sources.command {
        if !reads_keys {
            return Ok(Some(with_origin(Vec::new(), KeyOrigin::Command)));
        }
        let missing = |why| KeyError::Missing(format!("{setting} {why}"));
        let secrets = parse_lines(&run_command(command, COMMAND_TIMEOUT).map_err(missing)?);
        if secrets.is_empty() {
            return Err(missing("printed no key".to_owned()));
        }
        (setting, with_origin(secrets, KeyOrigin::Command))
    } else if let (setting, Some(literal)) = sources.literal {
        let keys: Option<Vec<Secret>> = literal.0.iter().map(|text| Secret::new(text)).collect();
        let secrets = keys.filter(|keys| !keys.is_empty());
        let empty = || KeyError::Mistake(setting, format!("{setting} is empty"));
        (
            setting,
            with_origin(secrets.ok_or_else(empty)?, KeyOrigin::Literal),
        )
    } else {
        return Ok(None);
    };
    if is_sendable(&keys) {
        Ok(Some(ApiKeys { setting, ..keys }))
    } else {
        Err(KeyError::Mistake(setting, NOT_SENDABLE.to_owned()))
    }
}

/// The key in the first variable of `names` that is set. These are the variables that the
/// registry lists for a built-in provider.
pub fn default_keys(
    names: &[String],
    environment: &dyn Environment,
) -> Result<Option<ApiKeys>, KeyError> {
    for name in names {
        if let Some(secret) = environment.get(name).as_deref().and_then(Secret::new) {
            let keys = with_origin(vec![secret], KeyOrigin::Environment(vec![name.clone()]));
            if !is_sendable(&keys) {
                return Err(KeyError::Missing(format!("{name}: {NOT_SENDABLE}")));
            }
            return Ok(Some(keys));
        }
    }
    Ok(None)
}

/// The weights of the keys in `keys`, or none. `weights` must be empty or have one entry for each
/// configured key; entries of keys whose variable is unset are dropped. The number of keys that
/// were not read is unknown.
pub fn key_weights(
    spec: &ProviderSpec,
    weights: &[u32],
    keys: Option<&ApiKeys>,
) -> Result<Vec<u32>, String> {
    if keys.is_some_and(|keys| keys.secrets.is_empty()) {
        return Ok(weights.to_vec());
    }
    let (count, unset) = match keys {
        Some(keys) => (
            keys.secrets.len() + keys.unset_variables.len(),
            keys.unset_variables.as_slice(),
        ),
        None => (0, [].as_slice()),
    };
    if weights.is_empty() || weights.len() == count {
        let named = spec.api_key_env.iter().flat_map(|names| &names.0);
        let is_set = named
            .map(|name| !unset.contains(name))
            .chain(std::iter::repeat(true));
        let used = weights.iter().zip(is_set).filter(|(_, is_set)| *is_set);
        return Ok(used.map(|(weight, _)| *weight).collect());
    }
    let plural = |count, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    Err(format!(
        "key_weights has {} for {}; each key needs one",
        plural(weights.len(), "weight"),
        plural(count, "key")
    ))
}

/// The first line of a small file that is not blank.
pub fn read_first_line(path: &Path) -> Result<Option<Secret>, String> {
    Ok(parse_lines(&read_limited(path)?).into_iter().next())
}

fn with_origin(secrets: Vec<Secret>, origin: KeyOrigin) -> ApiKeys {
    ApiKeys {
        secrets,
        origin,
        setting: "",
        unset_variables: Vec::new(),
    }
}

fn from_environment(names: &[String], environment: &dyn Environment) -> Result<ApiKeys, KeyError> {
    let mut found = with_origin(Vec::new(), KeyOrigin::Environment(Vec::new()));
    let mut set = Vec::new();
    for name in names {
        match environment.get(name).as_deref().and_then(Secret::new) {
            Some(secret) => {
                found.secrets.push(secret);
                set.push(name.clone());
            }
            None => found.unset_variables.push(name.clone()),
        }
    }
    if set.is_empty() {
        let names = names.join(", ");
        return Err(KeyError::Missing(format!("the environment has no {names}")));
    }
    found.origin = KeyOrigin::Environment(set);
    Ok(found)
}

const NOT_SENDABLE: &str = "a key contains characters that cannot be sent in a header";

/// Whether each key fits into a header, which takes visible ASCII only.
fn is_sendable(keys: &ApiKeys) -> bool {
    let visible = |secret: &Secret| secret.expose().bytes().all(|byte| byte.is_ascii_graphic());
    keys.secrets.iter().all(visible)
}

fn parse_lines(text: &str) -> Vec<Secret> {
    text.lines().filter_map(Secret::new).collect()
}

fn read_limited(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_INPUT_BYTES).read_to_string(&mut text))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text)
}

/// The standard output of a command. Errors say how the command ended and never quote its
/// output, which may be a key.
fn run_command(command: &OneOrMany, limit: Duration) -> Result<String, String> {
    let mut program = match command.0.as_slice() {
        [] => return Err("is empty".to_owned()),
        [line] => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(line);
            shell
        }
        [program, arguments @ ..] => {
            let mut program = Command::new(program);
            program.args(arguments);
            program
        }
    };
    program
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    // Loading a configuration may block, so a runtime of its own waits for the command.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let spawned = program.spawn();
        let mut child = spawned.map_err(|error| format!("cannot be run: {error}"))?;
        let output = child.stdout.take().ok_or("has no output")?;
        let mut text = String::new();
        let running = async {
            let read = output.take(MAX_INPUT_BYTES).read_to_string(&mut text).await;
            (read, child.wait().await)
        };
        let Ok((read, Ok(status))) = timeout(limit, running).await else {
            child.kill().await.ok();
            return Err(format!("took longer than {limit:?}"));
        };
        if !status.success() {
            return Err(format!("ended with {status}"));
        }
        read.map(|_| text).map_err(|error| error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn spec(toml: &str) -> ProviderSpec {
        toml::from_str(toml).unwrap()
    }

    fn environment() -> HashMap<String, String> {
        HashMap::from([
            ("A_KEY".to_owned(), "key-a".to_owned()),
            ("B_KEY".to_owned(), "key-b".to_owned()),
            ("EMPTY".to_owned(), String::new()),
        ])
    }

    fn keys_of(toml: &str) -> Vec<String> {
        let keys = api_keys(&(&spec(toml)).into(), &environment(), true, Path::to_owned)
            .unwrap()
            .unwrap();
        keys.secrets
            .iter()
            .map(|secret| secret.expose().to_owned())
            .collect()
    }

    fn error(toml: &str) -> String {
        match api_keys(&(&spec(toml)).into(), &environment(), true, Path::to_owned).unwrap_err() {
            KeyError::Missing(why) => why,
            KeyError::Mistake(key, why) => format!("{key}: {why}"),
        }
    }

    #[test]
    fn each_source_gives_one_key_or_several() {
        assert_eq!(keys_of("api_key_env = \"A_KEY\""), ["key-a"]);
        assert_eq!(
            keys_of("api_key_env = [\"A_KEY\", \"B_KEY\"]"),
            ["key-a", "key-b"]
        );
        assert_eq!(keys_of("api_key = [\"x\", \" y \"]"), ["x", "y"]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        std::fs::write(&path, "one\n\n two \r\n").unwrap();
        assert_eq!(keys_of(&format!("api_key_file = {path:?}")), ["one", "two"]);
    }

    #[test]
    fn without_a_source_there_is_no_key() {
        assert!(
            api_keys(&(&spec("")).into(), &environment(), true, Path::to_owned)
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn two_sources_and_empty_sources_are_refused() {
        assert!(error("api_key = \"a\"\napi_key_env = \"A_KEY\"").contains("not both"));
        assert!(error("api_key_env = \"EMPTY\"").contains("EMPTY"));
        assert_eq!(error("api_key = \"\""), "api_key: api_key is empty");
        assert_eq!(
            error("api_key = [\"a\", \" \"]"),
            "api_key: api_key is empty"
        );
        assert!(error("api_key_file = \"/nonexistent/key\"").contains("/nonexistent/key"));
    }

    #[test]
    fn a_key_that_no_header_carries_is_refused_without_being_quoted() {
        let why = error("api_key = \"secret\\u0007key\"");
        assert!(why.contains("header") && !why.contains("secret"), "{why}");
    }

    #[test]
    fn weights_follow_their_keys() {
        let weights_of = |toml: &str| {
            let spec = spec(toml);
            let keys = api_keys(&(&spec).into(), &environment(), true, Path::to_owned).unwrap();
            key_weights(&spec, &spec.key_weights, keys.as_ref())
        };
        for (toml, weights) in [
            (
                "api_key = [\"x\", \"y\"]\nkey_weights = [3, 1]",
                &[3, 1][..],
            ),
            ("api_key = [\"x\", \"y\"]", &[]),
            (
                "api_key_env = [\"A_KEY\", \"EMPTY\", \"B_KEY\"]\nkey_weights = [3, 2, 1]",
                &[3, 1],
            ),
            ("", &[]),
        ] {
            assert_eq!(weights_of(toml).unwrap(), weights, "{toml}");
        }
        assert_eq!(
            weights_of("api_key = \"x\"\nkey_weights = [3, 1]").unwrap_err(),
            "key_weights has 2 weights for 1 key; each key needs one"
        );
        assert_eq!(
            weights_of("key_weights = [1]").unwrap_err(),
            "key_weights has 1 weight for 0 keys; each key needs one"
        );
    }

    #[test]
    fn the_first_default_variable_that_is_set_counts() {
        let names = ["EMPTY", "B_KEY", "A_KEY"].map(str::to_owned);
        let keys = default_keys(&names, &environment()).unwrap().unwrap();
        assert_eq!(
            keys.origin,
            KeyOrigin::Environment(vec!["B_KEY".to_owned()])
        );
    }

    #[cfg(unix)]
    mod commands {
        use super::*;

        #[test]
        fn the_shell_runs_a_string_and_not_a_list() {
            assert_eq!(keys_of("api_key_command = \"echo a; echo b\""), ["a", "b"]);
            assert_eq!(keys_of("api_key_command = [\"echo\", \"a;\"]"), ["a;"]);
        }

        #[test]
        fn the_error_of_a_command_does_not_quote_its_output() {
            let why = error("api_key_command = \"echo canary; exit 3\"");
            assert!(why.contains('3') && !why.contains("canary"), "{why}");
            assert!(
                error("api_key_command = [\"/nonexistent/x\", \"y\"]").contains("cannot be run")
            );
        }

        #[test]
        fn nothing_is_read_or_run_for_a_command_that_needs_no_key() {
            let folder = tempfile::tempdir().unwrap();
            let ran = folder.path().join("ran");
            let command = format!("api_key_command = [\"touch\", {ran:?}]");
            for (toml, origin) in [
                (
                    "api_key_file = \"/nonexistent\"",
                    KeyOrigin::File("/nonexistent".into()),
                ),
                (command.as_str(), KeyOrigin::Command),
            ] {
                let keys = api_keys(&(&spec(toml)).into(), &environment(), false, Path::to_owned);
                let keys = keys.unwrap().unwrap();
                assert_eq!((keys.secrets.len(), keys.origin), (0, origin));
            }
            assert!(!ran.exists());
        }

        #[test]
        fn a_command_that_hangs_is_killed() {
            for line in ["exec sleep 600", "exec sleep 600 >&-"] {
                let command = OneOrMany(vec![line.to_owned()]);
                let why = run_command(&command, Duration::from_millis(50)).unwrap_err();
                assert!(why.contains("longer"), "{why}");
            }
        }
    }
}
