//! The commands that are no server.

pub mod artifacts;
pub mod bundle;
pub mod mcp;
pub mod models;
pub mod replay;

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::app::models::first_model;
use crate::codex::{catalog, print};
use crate::config::{ArtifactMode, Config, address};

/// Writes to standard output.
pub fn say(text: &str) -> anyhow::Result<()> {
    put(text.as_bytes())
}

/// Writes bytes to standard output. A reader that goes away has enough.
fn put(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// `respondent codex print`: the block for Codex's config.toml.
pub fn codex_print(config: &Config) -> String {
    let written = catalog::default_path(|name| std::env::var_os(name)).filter(|path| path.exists());
    print::print(&print::Setup {
        origin: &format!("http://{}", address::from_here(config.server.listen)),
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
    let printed = catalog::ask_codex(codex).await?;
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
        catalog.prompt_of,
        toml::Value::String(path.to_string_lossy().into_owned()),
    ))
}
