//! `respondent codex`: setup of the Codex CLI.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::app::models::first_model;
use crate::codex::{catalog, print};
use crate::config::{ArtifactMode, Config, address};

/// `respondent codex print`: the block for Codex's config.toml.
pub fn config_block(config: &Config) -> String {
    let written = catalog::default_path(|name| std::env::var_os(name)).filter(|path| path.exists());
    print::config_block(&print::CodexSetup {
        origin: &format!(
            "http://{}",
            address::local_client_address(config.server.listen)
        ),
        model: &first_model(config),
        token: config.server.token.is_some(),
        catalog: written.as_deref(),
        artifacts: config.artifacts.mode != ArtifactMode::Off,
    })
}

/// `respondent codex catalog`: takes the prompt of the installed Codex and writes a catalog
/// of our models with it to `output` or to Codex's directory. Returns the text to print: what
/// to do next, or the catalog itself if `output` is `-`.
pub async fn write_catalog(
    config: &Config,
    codex: &OsStr,
    output: Option<PathBuf>,
) -> anyhow::Result<String> {
    let printed = catalog::run_codex_debug_models(codex).await?;
    let catalog = catalog::build(&printed, &crate::app::models::catalog(config, None))?;
    if output.as_deref() == Some(Path::new("-")) {
        return Ok(catalog.json);
    }
    let path = match output.or_else(|| catalog::default_path(|name| std::env::var_os(name))) {
        Some(path) => std::path::absolute(path)?,
        None => anyhow::bail!("there is no home folder to write to: name a file with --output"),
    };
    catalog::write(&path, &catalog)?;
    Ok(format!(
        "Wrote {} with the prompt of {}.\nAdd this line to the top of Codex's config.toml:\nmodel_catalog_json = {}\n",
        path.display(),
        catalog.prompt_model,
        toml::Value::String(path.to_string_lossy().into_owned()),
    ))
}
