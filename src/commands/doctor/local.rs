//! Checks of this machine, without asking a provider.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::report::DoctorCheck;
use super::search;
use crate::codex::home::CodexHome;
use crate::codex::settings::ID;
use crate::codex::{default_config, profile};
use crate::config::{Config, address};
use crate::control::{ControlClient, ControlError};

/// The variables with the proxy on the way to providers.
const PROXY_VARIABLES: [&str; 6] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
];

/// All checks of this machine. `variable` reads an environment variable, `codex` is the Codex
/// program.
pub(super) async fn checks(
    config: &Config,
    codex: &OsStr,
    variable: impl Fn(&str) -> Option<std::ffi::OsString>,
) -> Vec<DoctorCheck> {
    let mut checks = vec![configuration(config)];
    let warnings = config.warnings.iter();
    checks.extend(warnings.map(|warning| {
        let remedy = "`respondent check` shows the settings in use.";
        DoctorCheck::warning("configuration", warning, remedy)
    }));
    checks.push(port(config).await);
    checks.extend(proxies(&variable));
    checks.push(search::configured(&config.search));
    checks.push(data_dir(&config.server.data_dir));
    let path = variable("PATH").unwrap_or_default();
    checks.push(codex_program(codex, &path));
    checks.push(codex_settings(config, CodexHome::find(variable)));
    checks
}

fn configuration(config: &Config) -> DoctorCheck {
    let file = config.paths.file.as_ref();
    let read = file.map_or_else(
        || "no file; every provider whose key variable is set is on".to_owned(),
        |file| format!("{} is valid", file.display()),
    );
    let real = config.registry.providers.iter();
    if real
        .clone()
        .all(|provider| provider.id == registry::SANDBOX)
    {
        let remedy = "Set the key of a provider, such as OPENAI_API_KEY, or name any server with \
            --url.";
        return DoctorCheck::warning("configuration", "No provider is on.", remedy);
    }
    DoctorCheck::good("configuration", read)
}

async fn port(config: &Config) -> DoctorCheck {
    let client = ControlClient::new(config);
    let address = client.address();
    match client.check_health().await {
        Ok(health) => DoctorCheck::good(
            "port",
            format!("Respondent {} runs on {address}", health.version),
        ),
        Err(ControlError::NotRunning(_)) => DoctorCheck::good(
            "port",
            format!("{address} is free; `respondent` starts the server"),
        ),
        Err(error) => DoctorCheck::failed(
            "port",
            error.to_string(),
            Some("Choose another address with --listen."),
        ),
    }
}

fn proxies(variable: &impl Fn(&str) -> Option<std::ffi::OsString>) -> Vec<DoctorCheck> {
    let set = PROXY_VARIABLES.iter().filter_map(|name| {
        let value = variable(name)?.into_string().ok()?;
        (!value.is_empty()).then_some((*name, value))
    });
    let checks: Vec<DoctorCheck> = set
        .map(|(name, value)| match address::proxy_error(&value) {
            None => DoctorCheck::good(
                "proxy",
                format!("{name} is used for providers on other machines"),
            ),
            Some(_) => DoctorCheck::warning(
                "proxy",
                format!("{name} is not a URL such as http://host:3128."),
                format!("Correct {name}, or unset it."),
            ),
        })
        .collect();
    if checks.is_empty() {
        return vec![DoctorCheck::good("proxy", "none")];
    }
    checks
}

/// Whether files can be made in the data directory, or in the nearest directory above it that
/// exists. A server may run there, so the file that is made has a name of its own.
fn data_dir(dir: &Path) -> DoctorCheck {
    // A file in the place of a directory keeps everything below it from being made.
    let existing = dir
        .ancestors()
        .find(|dir| dir.exists())
        .filter(|dir| dir.is_dir());
    let probe = existing.map(|dir| dir.join(format!(".respondent-doctor-{}", std::process::id())));
    let made = probe.map(|path| {
        let made = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path);
        if made.is_ok() {
            std::fs::remove_file(&path).ok();
        }
        made
    });
    match made {
        Some(Ok(_)) => DoctorCheck::good("data", dir.display().to_string()),
        Some(Err(error)) => DoctorCheck::failed(
            "data",
            format!("{} cannot be written: {error}.", dir.display()),
            Some("Choose another directory with --data-dir."),
        ),
        None => DoctorCheck::failed(
            "data",
            format!("{} cannot be made.", dir.display()),
            Some("Choose another directory with --data-dir."),
        ),
    }
}

fn codex_program(program: &OsStr, path: &OsStr) -> DoctorCheck {
    let named = Path::new(program);
    let found = if named.components().count() > 1 {
        Some(named.to_owned()).filter(|path| path.is_file())
    } else {
        std::env::split_paths(path)
            .map(|dir| dir.join(program))
            .find(|path: &PathBuf| path.is_file())
    };
    match found {
        Some(path) => DoctorCheck::good("codex", path.display().to_string()),
        None => DoctorCheck::warning(
            "codex",
            format!("{} was not found.", named.display()),
            "Install it with `npm install -g @openai/codex`, or name its file with --codex.",
        ),
    }
}

/// Whether Codex is set up for this server.
fn codex_settings(config: &Config, home: Option<CodexHome>) -> DoctorCheck {
    const SETUP: &str = "`respondent codex setup`; `respondent run codex` needs no setup.";
    let Some(home) = home else {
        return DoctorCheck::warning(
            "codex setup",
            "There is no home directory.",
            "Set CODEX_HOME.",
        );
    };
    let profile = match profile::read(&home) {
        Ok(profile) => profile,
        Err(error) => return DoctorCheck::failed("codex setup", error.to_string(), None),
    };
    let start = format!("codex -p {ID}");
    let settings = profile.map(|text| (start, text)).or_else(|| {
        let text = std::fs::read_to_string(home.config()).ok()?;
        default_config::is_set_up(&home).then(|| ("codex".to_owned(), text))
    });
    let Some((start, text)) = settings else {
        let found = format!("Codex is not set up in {}.", home.folder().display());
        return DoctorCheck::warning("codex setup", found, SETUP);
    };
    let table: toml::Table = text.parse().unwrap_or_default();
    let provider = table.get("model_providers").and_then(|all| all.get(ID));
    let base_url = provider.and_then(|provider| provider.get("base_url")?.as_str());
    let own = address::local_client_address(config.server.listen);
    let own = format!("http://{own}/v1");
    match base_url {
        Some(base_url) if base_url == own => {
            DoctorCheck::good("codex setup", format!("`{start}` uses {own}"))
        }
        Some(base_url) => DoctorCheck::warning(
            "codex setup",
            format!("`{start}` uses {base_url}, and this server is {own}."),
            SETUP,
        ),
        None => DoctorCheck::warning("codex setup", format!("`{start}` names no server."), SETUP),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::CheckVerdict;
    use super::*;

    #[test]
    fn a_proxy_that_is_no_url_is_told_by_its_name_only() {
        let only =
            |value: &'static str| move |name: &str| (name == "HTTPS_PROXY").then(|| value.into());
        let verdict = |value| proxies(&only(value))[0].clone();
        assert_eq!(verdict("http://proxy.lan:3128").verdict, CheckVerdict::Good);
        let bad = verdict("secret@nowhere");
        assert_eq!(bad.verdict, CheckVerdict::Warning);
        assert!(!bad.to_json().to_string().contains("secret"));
        assert_eq!(
            proxies(&|_: &str| None),
            [DoctorCheck::good("proxy", "none")]
        );
    }

    #[test]
    fn a_data_directory_that_is_missing_is_no_fault_if_it_can_be_made() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            data_dir(&folder.path().join("a/b")).verdict,
            CheckVerdict::Good
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        // Nothing can be made below a file.
        assert_eq!(data_dir(&file.join("a")).verdict, CheckVerdict::Failed);
    }
}
