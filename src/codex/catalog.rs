//! A local model catalog (`model_catalog_json` in Codex's config.toml) that
//! gives our models the prompt of the user's installed Codex.
//!
//! That prompt is tuned for Codex's tools and longer than a served list could
//! repeat for every model; a file has no such limit.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::models::{self, ModelEntry};

/// The name of the file in Codex's folder.
pub const FILE_NAME: &str = "respondent-models.json";

const TIMEOUT: Duration = Duration::from_secs(30);

/// A catalog that is ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodexCatalog {
    /// The JSON text: `{"models":[…]}`.
    pub json: String,
    /// The model of Codex whose prompt was taken.
    pub prompt_model: String,
}

/// Why there is no catalog; the messages say what to do.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The command is not on the path.
    #[error(
        "{program:?} was not found. Install the Codex CLI (npm install -g @openai/codex), or name \
         its file with --codex. Without a local catalog Codex reads the models from this server"
    )]
    NotFound {
        /// What was to be run.
        program: OsString,
    },
    /// The command could not be run.
    #[error("{program:?} could not be run")]
    NotRun {
        /// What was to be run.
        program: OsString,
        /// Why.
        source: io::Error,
    },
    /// The command ended with a failure; old versions do not know it.
    #[error("`codex debug models` failed; a current Codex CLI has this command. It said: {said}")]
    Failed {
        /// The end of its error output.
        said: String,
    },
    /// The command did not end.
    #[error("`codex debug models` did not end within {} s", TIMEOUT.as_secs())]
    TooSlow,
    /// The output is not the JSON that Codex 0.169 prints.
    #[error("the output of `codex debug models` is not a model list; update the Codex CLI")]
    NotAList {
        /// Where it differs.
        source: serde_json::Error,
    },
    /// All models of this Codex work with tools that only its vendor's models
    /// know.
    #[error(
        "this Codex has no prompt for ordinary models. Write one into a file and give it to the \
         server, or use the server's own model list"
    )]
    NoPrompt,
    /// The file could not be written.
    #[error("{} could not be written", path.display())]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Builds the catalog from what `codex debug models` printed.
///
/// The prompt is that of the best-ranked plain model: one that calls its tools
/// as functions, since the prompts for code mode and Responses-lite speak of
/// tools that other models never see. Entries with a slug of ours are passed
/// over; they come from an earlier catalog.
pub fn build(printed: &str, models: &[ModelEntry]) -> Result<CodexCatalog, CatalogError> {
    let listed: PrintedModels =
        serde_json::from_str(printed).map_err(|source| CatalogError::NotAList { source })?;
    let plain = listed
        .models
        .iter()
        .filter(|model| model.is_plain() && models.iter().all(|own| own.slug != model.slug))
        .min_by_key(|model| (model.visibility.as_deref() == Some("hide"), model.priority))
        .ok_or(CatalogError::NoPrompt)?;
    let entries = models
        .iter()
        .enumerate()
        .map(|(at, model)| models::info(at, model, &plain.base_instructions))
        .collect();
    let json = serde_json::to_string_pretty(&CatalogFile { models: entries })
        .map_err(|source| CatalogError::NotAList { source })?;
    Ok(CodexCatalog {
        json,
        prompt_model: plain.slug.clone(),
    })
}

/// What `program debug models` prints, `program` being `codex` or its path.
///
/// Asks for the bundled list, which a catalog of ours in the user's config
/// does not hide; a Codex that does not know the flag is asked without it.
pub async fn run_codex_debug_models(program: &OsStr) -> Result<String, CatalogError> {
    match run(program, &["debug", "models", "--bundled"]).await {
        Err(CatalogError::Failed { .. }) => run(program, &["debug", "models"]).await,
        printed => printed,
    }
}

async fn run(program: &OsStr, arguments: &[&str]) -> Result<String, CatalogError> {
    let ended = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(TIMEOUT, ended)
        .await
        .map_err(|_| CatalogError::TooSlow)?
        .map_err(|source| {
            let program = program.to_owned();
            if source.kind() == io::ErrorKind::NotFound {
                CatalogError::NotFound { program }
            } else {
                CatalogError::NotRun { program, source }
            }
        })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said
        .trim()
        .lines()
        .next_back()
        .unwrap_or("nothing")
        .to_owned();
    Err(CatalogError::Failed { said })
}

/// Where the catalog goes unless told otherwise: Codex's folder, which is
/// `CODEX_HOME` or `.codex` in the home folder. `None` when neither is known.
pub fn default_path(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let folder = set("CODEX_HOME").or_else(|| {
        let home = set("HOME").or_else(|| set("USERPROFILE"))?;
        Some(home.join(".codex"))
    })?;
    Some(folder.join(FILE_NAME))
}

/// Writes the catalog, replacing an earlier one in one step, so that a Codex
/// that starts meanwhile reads either.
pub fn write(path: &Path, catalog: &CodexCatalog) -> Result<(), CatalogError> {
    let failed = |source| CatalogError::NotWritten {
        path: path.to_owned(),
        source,
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    std::fs::write(&beside, &catalog.json)
        .and_then(|()| std::fs::rename(&beside, path))
        .map_err(|source| {
            let _ = std::fs::remove_file(&beside);
            failed(source)
        })
}

#[derive(Deserialize)]
struct PrintedModels {
    models: Vec<PrintedModel>,
}

/// The fields of Codex's `ModelInfo` that matter here.
#[derive(Deserialize)]
struct PrintedModel {
    slug: String,
    #[serde(default)]
    base_instructions: String,
    #[serde(default)]
    tool_mode: Option<String>,
    #[serde(default)]
    use_responses_lite: bool,
    #[serde(default)]
    visibility: Option<String>,
    #[serde(default)]
    priority: i64,
}

impl PrintedModel {
    fn is_plain(&self) -> bool {
        self.tool_mode.as_deref() != Some("code_mode_only")
            && !self.use_responses_lite
            && !self.base_instructions.trim().is_empty()
    }
}

#[derive(Serialize)]
struct CatalogFile<'a> {
    models: Vec<models::Info<'a>>,
}

#[cfg(test)]
mod tests;
