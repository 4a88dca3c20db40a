//! The inputs of a configuration (flags, environment variables, the user's directories)
//! and the search for its file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcetera::BaseStrategy;

use super::purpose::LoadPurpose;

/// The name of the configuration file, in the working directory and in the user's
/// configuration directory.
pub const CONFIG_FILE_NAME: &str = "proxy-config.toml";

/// The name of our directory in the user's configuration and data directories.
const DIR_NAME: &str = "respondent";

/// A source of environment variables. Tests pass a map instead of changing the process.
pub trait Environment: Send + Sync {
    /// The value of a variable; `None` if it is unset or empty.
    fn get(&self, name: &str) -> Option<String>;
}

/// The environment of this process.
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn get(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }
}

impl<S: std::hash::BuildHasher + Send + Sync> Environment
    for std::collections::HashMap<String, String, S>
{
    fn get(&self, name: &str) -> Option<String> {
        HashMap::get(self, name)
            .filter(|value| !value.is_empty())
            .cloned()
    }
}

/// The heading of these flags in the help of every command.
pub const GLOBAL_OPTIONS: &str = "Global options";

/// The command-line flags that override the configuration. Each has a `RESPONDENT_*`
/// variable.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Flags {
    /// The configuration file
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL_OPTIONS)]
    pub config: Option<PathBuf>,
    /// The address on which the server listens, and at which commands look for it
    #[arg(long, global = true, value_name = "ADDR:PORT", help_heading = GLOBAL_OPTIONS)]
    pub listen: Option<String>,
    /// File with the token that clients must send [env: RESPONDENT_TOKEN_FILE, or
    /// RESPONDENT_TOKEN for the token itself]
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL_OPTIONS)]
    pub token_file: Option<PathBuf>,
    /// The directory for data: tool outputs, responses, recorded turns
    #[arg(long, global = true, value_name = "DIR", help_heading = GLOBAL_OPTIONS)]
    pub data_dir: Option<PathBuf>,
    /// What the server logs, such as warn or info,respondent=debug
    #[arg(long, global = true, value_name = "FILTER", help_heading = GLOBAL_OPTIONS)]
    pub log: Option<String>,
}

/// The directories of the user and the process.
#[derive(Clone, Debug)]
pub struct UserDirs {
    /// The working directory.
    pub working: PathBuf,
    /// The user's home directory.
    pub home: PathBuf,
    /// Our directory in the user's configuration directory.
    pub config: PathBuf,
    /// Our directory in the user's data directory.
    pub data: PathBuf,
}

impl UserDirs {
    /// The directories of the user who runs this process.
    pub fn from_process() -> Result<Self, etcetera::HomeDirError> {
        let base = etcetera::choose_base_strategy()?;
        Ok(Self {
            working: PathBuf::from("."),
            home: base.home_dir().to_owned(),
            config: base.config_dir().join(DIR_NAME),
            data: base.data_dir().join(DIR_NAME),
        })
    }

    /// Directories inside `dir`, separate from the user's; for tests. `dir` itself is the
    /// configuration directory.
    pub fn under(dir: &Path) -> Self {
        Self {
            working: dir.join("working"),
            home: dir.to_owned(),
            config: dir.to_owned(),
            data: dir.join("data"),
        }
    }

    /// Resolves a path that a configuration file in `dir` contains: it may be absolute,
    /// begin with `~`, or be relative to that file.
    pub fn resolve(&self, dir: &Path, path: &Path) -> PathBuf {
        path.strip_prefix("~")
            .map_or_else(|_| dir.join(path), |rest| self.home.join(rest))
    }

    /// The path with `~` for the home directory, for messages to clients.
    pub fn shorten(&self, path: &Path) -> String {
        path.strip_prefix(&self.home).map_or_else(
            |_| path.display().to_string(),
            |rest| format!("~/{}", rest.display()),
        )
    }
}

/// Everything besides files that determines a configuration.
#[derive(Clone)]
pub struct Inputs {
    /// The command-line flags.
    pub flags: Flags,
    /// The environment variables.
    pub environment: Arc<dyn Environment>,
    /// The user's directories.
    pub dirs: UserDirs,
}

/// Where the configuration is read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigPaths {
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
    /// Whether the file was found in the working directory, so that the author of the directory may
    /// have written it: it was not named, and it is not in the user's configuration directory. Such
    /// a file runs no command, reads no other file and moves no key.
    pub is_found: bool,
    /// A file in the working directory that is not read because it was not named.
    pub ignored: Option<PathBuf>,
    /// The directory with one file per provider; it need not exist.
    pub providers_dir: PathBuf,
    /// The file in which the user can change a setting, as messages name it: the one that is
    /// read, or else the one in the user's configuration directory.
    pub shown: String,
}

impl Inputs {
    /// No flags and no variables, and directories as in [`UserDirs::under`]; for tests.
    pub fn under(dir: &Path) -> Self {
        Self {
            flags: Flags::default(),
            environment: Arc::new(HashMap::<String, String>::new()),
            dirs: UserDirs::under(dir),
        }
    }

    /// The inputs of this process.
    pub fn from_process(flags: Flags) -> Result<Self, etcetera::HomeDirError> {
        Ok(Self {
            flags,
            environment: Arc::new(ProcessEnvironment),
            dirs: UserDirs::from_process()?,
        })
    }

    /// The value of a flag, or else of its variable.
    pub fn path_override(&self, flag: Option<&PathBuf>, variable: &str) -> Option<PathBuf> {
        let value = || self.environment.get(variable).map(PathBuf::from);
        flag.cloned().or_else(value)
    }

    /// Finds the configuration file: the one named by flag or variable, else the one in the
    /// working directory, which not every command reads, else the one in the user's
    /// configuration directory. The `providers/` directory is beside the file; without a file
    /// it is the user's.
    pub fn config_paths(&self, purpose: LoadPurpose) -> ConfigPaths {
        let dirs = &self.dirs;
        let named = self.path_override(self.flags.config.as_ref(), "RESPONDENT_CONFIG");
        let [here, own] = [&dirs.working, &dirs.config].map(|dir| dir.join(CONFIG_FILE_NAME));
        let here = Some(here).filter(|path| {
            named.is_none() && path.is_file() && !is_same_dir(&dirs.working, &dirs.config)
        });
        let is_found = here.is_some() && purpose.searches_working_directory();
        let (found, ignored) = if is_found { (here, None) } else { (None, here) };
        let is_own = named.is_none() && found.is_none();
        let file = named.or(found);
        let file = file.or_else(|| Some(own.clone()).filter(|path| path.is_file()));
        let dir = file.as_deref().map_or(dirs.config.as_path(), parent_dir);
        ConfigPaths {
            is_found,
            ignored,
            providers_dir: dir.join("providers"),
            shown: match &file {
                Some(file) if !is_own => file.display().to_string(),
                _ => dirs.shorten(&own),
            },
            file,
        }
    }
}

fn is_same_dir(one: &Path, other: &Path) -> bool {
    let is_same = one.canonicalize().ok().zip(other.canonicalize().ok());
    is_same.is_some_and(|(one, other)| one == other)
}

/// The directory that contains `file`.
pub fn parent_dir(file: &Path) -> &Path {
    file.parent().unwrap_or_else(|| Path::new(""))
}
