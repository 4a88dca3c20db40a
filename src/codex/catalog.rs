//! Makes a local model catalog (`model_catalog_json` in Codex's configuration) that gives our
//! models the prompt of the user's installed Codex.
//!
//! That prompt is tuned for Codex's tools. It is too long to repeat for every model in the
//! list that the server sends; a file has no such limit.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

use super::change::FileChange;
use super::file::{self, FileError};
use super::home::CodexHome;

/// Time limit for `codex debug models`.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The member of a catalog that shows that this program wrote it. Codex ignores it.
const MARK: &str = "written_by";

/// A catalog that is ready to be written to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodexCatalog {
    /// The JSON text: `{"models":[…]}`.
    pub json: String,
    /// The slug of the Codex model whose prompt was copied.
    pub prompt_model: String,
    /// The slugs of the models.
    pub slugs: Vec<String>,
}

/// Why no catalog was written. The messages say what to do.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The program was not found.
    #[error(
        "{program:?} was not found. Install the Codex CLI (npm install -g @openai/codex), or name \
         its file with --codex"
    )]
    NotFound {
        /// The program to run.
        program: OsString,
    },
    /// The program could not be started.
    #[error("{program:?} could not be run")]
    NotRun {
        /// The program to run.
        program: OsString,
        /// The reason.
        source: io::Error,
    },
    /// The command failed. Old versions of Codex do not have it.
    #[error(
        "`codex debug models` failed; a current Codex CLI has this command. It said: {last_line}"
    )]
    Failed {
        /// The last line of its error output.
        last_line: String,
    },
    /// The command did not end in time.
    #[error("`codex debug models` did not end within {} s", TIMEOUT.as_secs())]
    TooSlow,
    /// The output does not have the shape that Codex 0.169 prints.
    #[error("the output of `codex debug models` is not a model list; update the Codex CLI")]
    NotAList {
        /// The JSON error.
        source: serde_json::Error,
    },
    /// No model of this Codex has a prompt.
    #[error(
        "this Codex has no prompt for its models. Codex will use the one of the server; another can \
         be set with `instructions_file` in [codex]"
    )]
    NoPrompt,
    /// There is a file of that name that the setup has not written.
    #[error(
        "{} exists and was not written by `respondent codex setup`; move it elsewhere first",
        path.display()
    )]
    Foreign {
        /// The file of the catalog.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Builds a catalog of entries from the output of `codex debug models`.
///
/// The prompt is copied from the best-ranked plain model, one that calls its tools as functions, or
/// else from the best-ranked one of another kind, without what it says of the tools that only such
/// a model has. An entry with a slug of ours comes last: it may be from an earlier catalog.
pub fn build(printed: &str, mut infos: Vec<Value>) -> Result<CodexCatalog, CatalogError> {
    let printed: PrintedModels =
        serde_json::from_str(printed).map_err(|source| CatalogError::NotAList { source })?;
    let is_ours = |slug: &str| infos.iter().any(|info| info["slug"] == slug);
    let models = printed.models.iter();
    let best = models
        .filter(|model| !model.prompt().trim().is_empty())
        .min_by_key(|model| {
            let is_hidden = model.visibility.as_deref() == Some("hide");
            let is_special = !model.is_plain();
            (is_special, is_hidden, is_ours(&model.slug), model.priority)
        })
        .ok_or(CatalogError::NoPrompt)?;
    for info in infos.iter_mut().filter_map(Value::as_object_mut) {
        info.insert("base_instructions".to_owned(), best.prompt().into());
    }
    let slugs = infos.iter().filter_map(|info| info["slug"].as_str());
    let slugs = slugs.map(str::to_owned).collect();
    Ok(CodexCatalog {
        slugs,
        json: format!(
            "{:#}",
            json!({ MARK: "respondent codex setup", "models": infos })
        ),
        prompt_model: best.slug.clone(),
    })
}

/// What writes the catalog of the setup, in place of an earlier one.
pub fn plan(home: &CodexHome, catalog: &CodexCatalog) -> Result<FileChange, CatalogError> {
    let path = home.catalog();
    match file::read(&path)? {
        Some(earlier) if !is_ours(&earlier) && !is_named_by_us(home)? => {
            Err(CatalogError::Foreign { path })
        }
        Some(_) | None => Ok(FileChange::write(path, catalog.json.clone())),
    }
}

/// What deletes the catalog, if the setup wrote it.
pub fn plan_removal(home: &CodexHome) -> Result<Option<FileChange>, FileError> {
    let is_named = is_named_by_us(home)?;
    let catalog = file::read(&home.catalog())?.filter(|text| is_named || is_ours(text));
    Ok(catalog.map(|_| FileChange::delete(home.catalog())))
}

fn is_ours(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|catalog| catalog.get(MARK).is_some())
}

/// Whether settings that the setup wrote name the catalog. The catalogs of older versions have no
/// mark.
fn is_named_by_us(home: &CodexHome) -> Result<bool, FileError> {
    let catalog = home.catalog();
    let name = catalog.file_name().unwrap_or_default().to_string_lossy();
    let ours = [
        super::profile::read(home)?,
        file::read(&home.config_written())?,
    ];
    Ok(ours.iter().flatten().any(|text| text.contains(&*name)))
}

/// The output of `codex debug models`; `program` is `codex` or its path.
///
/// Asks for the bundled list, which a catalog of ours in the user's config.toml does not
/// replace, and tries again without the flag if this Codex does not know it.
pub async fn run_codex_debug_models(program: &OsStr) -> Result<String, CatalogError> {
    match run(program, &["debug", "models", "--bundled"]).await {
        Err(CatalogError::Failed { .. }) => run(program, &["debug", "models"]).await,
        printed => printed,
    }
}

/// The features of a Codex, as `codex features list` prints them: a line has a name, a stage and
/// whether the feature is on. Made by [`CodexFeatures::of`].
#[derive(Debug, Default)]
pub struct CodexFeatures(String);

impl CodexFeatures {
    /// Asks a Codex; one that does not answer has none.
    pub async fn of(program: &OsStr) -> Self {
        let listed = run(program, &["features", "list"]).await;
        Self(listed.unwrap_or_default())
    }

    /// Whether there is a feature that can be switched on and off.
    pub fn has(&self, name: &str) -> bool {
        self.0.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(name) && words.next().is_some_and(|stage| stage != "removed")
        })
    }
}

async fn run(program: &OsStr, arguments: &[&str]) -> Result<String, CatalogError> {
    let running = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(TIMEOUT, running)
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last_line = stderr
        .trim()
        .lines()
        .next_back()
        .unwrap_or("nothing")
        .to_owned();
    Err(CatalogError::Failed { last_line })
}

#[derive(Deserialize)]
struct PrintedModels {
    models: Vec<PrintedModel>,
}

/// The fields of Codex's `ModelInfo` that are needed here.
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
    /// Whether the model calls its tools as functions.
    fn is_plain(&self) -> bool {
        self.tool_mode.as_deref() != Some("code_mode_only") && !self.use_responses_lite
    }

    /// The prompt, as it is true for a model that calls its tools as functions.
    fn prompt(&self) -> Cow<'_, str> {
        if self.is_plain() {
            return Cow::Borrowed(&self.base_instructions);
        }
        let lines = self.base_instructions.split_inclusive('\n');
        let is_about_code = |line: &&str| CODE_MODE.iter().any(|word| line.contains(word));
        Cow::Owned(lines.filter(|line| !is_about_code(line)).collect())
    }
}

/// What the lines of a prompt name that describe how a program calls tools.
const CODE_MODE: [&str; 4] = ["functions.", "ALL_TOOLS", "await ", "JSON.stringify"];

#[cfg(test)]
mod tests;
