//! What `respondent check` says of the running server: whether it has another configuration than
//! the one that was checked.

use std::path::{Path, PathBuf};

use super::models::providers_of;
use super::status::of_server;
use crate::config::Config;
use crate::control::{ControlClient, ControlError};
use crate::log::{TERMINAL_WIDTH, wrapped};

/// How the running server differs from this configuration; empty if no server runs.
pub async fn about_server(config: &Config) -> anyhow::Result<String> {
    let control = ControlClient::new(config);
    let address = control.address();
    match control.check_health().await {
        Ok(_) => {}
        Err(ControlError::NotRunning(_)) => return Ok(String::new()),
        Err(error) => return Ok(lines(&[format!("No server was asked: {error}.")])),
    }
    let (report, providers) = match tokio::try_join!(of_server(&control), providers_of(&control)) {
        Ok(answers) => answers,
        Err(error) => {
            let text = format!("The server on {address} was not asked: {error:#}.");
            return Ok(lines(&[text]));
        }
    };
    let server = report.and_then(|report| report.server);
    let files = server.map_or_else(Vec::new, |server| server.config_files);
    let mut sentences = vec![if files.is_empty() && config.source_files.is_empty() {
        format!("The server on {address} has no configuration file either.")
    } else if canonical(&files) == canonical(&config.source_files) {
        format!("The server on {address} runs with the same configuration files.")
    } else if files.is_empty() {
        format!("The server on {address} runs without a configuration file.")
    } else {
        let files: Vec<String> = files
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        let files = files.join(", ");
        format!("The server on {address} runs with other configuration files: {files}.")
    }];
    let here = &config.registry;
    let on_there = providers.iter().filter(|provider| provider.on);
    let on_there: Vec<&str> = on_there.map(|provider| provider.id.as_str()).collect();
    let on_here = here.providers.iter().map(|provider| provider.id.as_str());
    let only_there = on_there.iter().copied();
    let only_there: Vec<&str> = only_there
        .filter(|id| here.provider(id).is_none())
        .collect();
    let only_here: Vec<&str> = on_here.filter(|id| !on_there.contains(id)).collect();
    for (where_, ids) in [
        ("On in that server and off in this shell", only_there),
        ("Off in that server and on in this shell", only_here),
    ] {
        if !ids.is_empty() {
            sentences.push(format!("{where_}: {}.", ids.join(", ")));
        }
    }
    Ok(lines(&sentences))
}

/// Sentences as lines of a terminal.
fn lines(sentences: &[String]) -> String {
    let lines = sentences
        .iter()
        .flat_map(|it| wrapped(it, TERMINAL_WIDTH.into()));
    lines.map(|line| line + "\n").collect()
}

/// The files as they are on disk, in an order of their own.
fn canonical(files: &[PathBuf]) -> Vec<PathBuf> {
    let canonical = |file: &PathBuf| Path::canonicalize(file).unwrap_or_else(|_| file.clone());
    let mut files: Vec<PathBuf> = files.iter().map(canonical).collect();
    files.sort();
    files
}
