//! `respondent run codex`: Codex with the models of this server, for one run. Nothing is set up:
//! the settings are arguments of Codex, and the model catalog is in a private temporary folder.

mod child;
mod server;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;

use super::invocation::{Invocation, typed_program};
use super::print_error;
use super::progress::Progress;
use super::served::{ModelSource, ServedModels};
use crate::codex::agents::{CodexAgents, of_user};
use crate::codex::catalog::{self, CatalogError, CodexFeatures};
use crate::codex::home::CodexHome;
use crate::codex::sessions;
use crate::codex::settings::{CodexSearch, CodexSettings, CodexToken, STANDALONE_SEARCH};
use crate::config::{ArtifactMode, Config, Flags, Inputs, TOKEN_VARIABLE};
use server::LocalServer;

/// The feature with which Codex 0.171 runs its turns in a server of its own in the background.
const BACKGROUND_SERVER: &str = "daemon_auto_start";

/// The options of `respondent run codex`.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The model to start with; the default one if left out.
    pub model: Option<String>,
    /// The Codex program.
    pub codex: OsString,
    /// The arguments of Codex.
    pub args: Vec<OsString>,
}

/// Runs Codex to its end and returns its exit code. `config` was loaded from `inputs` for
/// [`AskProvider`](crate::config::LoadPurpose::AskProvider).
pub async fn codex(inputs: Inputs, config: Config, options: RunOptions) -> anyhow::Result<u8> {
    let progress = Progress::begin("Asking Codex for its prompt");
    let (prompts, features) = tokio::join!(
        catalog::run_codex_debug_models(&options.codex),
        CodexFeatures::of(&options.codex),
    );
    let prompts = match prompts {
        Ok(printed) => Some(printed),
        Err(error @ (CatalogError::NotFound { .. } | CatalogError::NotRun { .. })) => {
            return Err(error.into());
        }
        Err(
            CatalogError::Failed { .. }
            | CatalogError::TooSlow
            | CatalogError::NotAList { .. }
            | CatalogError::NoPrompt
            | CatalogError::Foreign { .. }
            | CatalogError::File(_),
        ) => None,
    };
    drop(progress);
    let progress = Progress::begin("Starting the server");
    let flags = inputs.flags.clone();
    let began = SystemTime::now();
    let server = LocalServer::find_or_start(inputs, config).await?;
    drop(progress);
    let is_exec = options.args.iter().any(|argument| argument == "exec");
    let ended = run(&server, prompts.as_deref(), &features, options).await;
    if std::io::stderr().is_terminal() {
        match &ended {
            Ok(code) if is_exec && *code != 0 => print_error(no_repository().unwrap_or_default()),
            Ok(_) => print_error(&resume_hint(&server, &flags, began).unwrap_or_default()),
            Err(_) => {}
        }
    }
    server.stop().await;
    ended
}

/// How to go on with the session that has just ended: Codex's own hint leads to OpenAI's models.
/// `None` if there was no session of a person.
fn resume_hint(server: &LocalServer, flags: &Flags, began: SystemTime) -> Option<String> {
    let home = CodexHome::find(|name| std::env::var_os(name))?;
    let working = std::env::current_dir().unwrap_or_default();
    let id = sessions::newest(&home, began, &working)?;
    let invocation = Invocation {
        program: &typed_program(),
        flags,
        config: server.config(),
        address: server.config().server.listen,
    };
    let command = invocation.command(&format!("run codex resume {id}"));
    Some(format!(
        "Respondent: to go on with this session, run\n  {command}\n"
    ))
}

/// What to do about a `codex exec` that failed outside a Git repository, where Codex refuses to
/// run; `None` inside one.
fn no_repository() -> Option<&'static str> {
    let working = std::env::current_dir().ok()?;
    let is_repository = |folder: &Path| folder.join(".git").exists();
    (!working.ancestors().any(is_repository)).then_some(
        "Respondent: this folder is in no Git repository, where `codex exec` runs only with \
         --skip-git-repo-check.\n",
    )
}

/// Runs Codex on a server. `prompts` is the output of `codex debug models`; without it Codex asks
/// the server for its models. `features` are those of this Codex.
async fn run(
    server: &LocalServer,
    prompts: Option<&str>,
    features: &CodexFeatures,
    options: RunOptions,
) -> anyhow::Result<u8> {
    let (config, control) = (server.config(), server.control());
    let named = options.model.as_deref();
    let served = ServedModels::of_server(control, config, named).await?;
    let source = ModelSource::Server(control.clone());
    let model = served.choose(&source, config, named).await?;
    if named.is_none()
        && let Some(demo) = served.only_demo()
    {
        anyhow::bail!("{}", server.no_key_advice(demo));
    }
    // It is removed when this function returns.
    let folder = tempfile::Builder::new()
        .prefix("respondent-run-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .context("no temporary folder can be made")?;
    let of_user: BTreeSet<String> = codex_folders().iter().flat_map(|it| of_user(it)).collect();
    let agents = CodexAgents::new(&config.codex, &served.infos, folder.path(), &of_user);
    for role in &agents.roles {
        fs::write(&role.path, &role.text)
            .with_context(|| format!("{} cannot be written", role.path.display()))?;
    }
    // Codex refuses an empty catalog.
    let prompts = prompts.filter(|_| !served.infos.is_empty());
    let made = prompts.map(|prompts| catalog::build(prompts, served.infos));
    let path = folder.path().join("models.json");
    let catalog = match made {
        Some(Ok(made)) => {
            fs::write(&path, made.json)
                .with_context(|| format!("{} cannot be written", path.display()))?;
            Some(path.as_path())
        }
        Some(Err(_)) | None => None,
    };
    let settings = CodexSettings {
        origin: &server.origin(),
        model: &model,
        token: match config.server.token {
            Some(_) => CodexToken::Variable(TOKEN_VARIABLE),
            None => CodexToken::None,
        },
        catalog,
        artifacts: config.artifacts.mode != ArtifactMode::Off,
        search: CodexSearch::new(config.search.mode, features.has(STANDALONE_SEARCH)),
        agents: Some(&agents),
    };
    let mut command = tokio::process::Command::new(&options.codex);
    for setting in settings.overrides() {
        command.arg("-c").arg(setting);
    }
    // Codex does not use its server in the background with settings of one run, and warns of it.
    if features.has(BACKGROUND_SERVER) {
        let off = format!("features.{BACKGROUND_SERVER}=false");
        command.arg("-c").arg(off);
    }
    command.args(&options.args);
    if let Some(token) = &config.server.token {
        command.env(TOKEN_VARIABLE, token.expose());
    }
    if std::io::stderr().is_terminal() {
        print_error(&server.notice());
    }
    child::run(command)
        .await
        .with_context(|| format!("{} could not be run", options.codex.display()))
}

/// The folders in which the user may have written roles of sub-agents: that of Codex, and those of
/// the project around the working directory.
fn codex_folders() -> Vec<PathBuf> {
    let home = CodexHome::find(|name| std::env::var_os(name));
    let home = home.map(|home| home.folder().to_owned());
    let working = std::env::current_dir().unwrap_or_default();
    let of_project = working.ancestors().map(|folder| folder.join(".codex"));
    home.into_iter().chain(of_project).collect()
}
