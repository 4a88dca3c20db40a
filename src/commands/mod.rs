//! The commands that are no server.

pub mod artifacts;
pub mod bundle;
pub mod cli;
pub mod mcp;
pub mod models;
pub mod replay;

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::app::{entries, first_model};
use crate::codex::{catalog, print};
use crate::config::{ArtifactMode, Config, address};

/// Writes to standard output.
pub fn print_text(text: &str) -> anyhow::Result<()> {
    print_bytes(text.as_bytes())
}

/// Writes bytes to standard output. A reader that goes away has enough.
fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// `respondent codex print`: the block for Codex's config.toml.
pub fn codex_print(config: &Config) -> String {
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

/// `respondent codex catalog`: asks the installed Codex for its prompt and
/// writes a catalog of our models with it.
pub async fn codex_catalog(
    config: &Config,
    codex: &OsStr,
    output: Option<PathBuf>,
) -> anyhow::Result<String> {
    let printed = catalog::run_codex_debug_models(codex).await?;
    let catalog = catalog::build(&printed, &entries(config, None))?;
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
