//! The inputs of a configuration (flags, environment variables, the user's directories)
//! and the search for its file.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

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
        std::collections::HashMap::get(self, name)
            .filter(|value| !value.is_empty())
            .cloned()
    }
}

/// The command-line flags that override the configuration. Each has a `RESPONDENT_*`
/// variable.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Flags {
    /// Configuration file [env: RESPONDENT_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address to listen on [env: RESPONDENT_LISTEN]
    #[arg(long, global = true, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// Directory for stored data [env: RESPONDENT_DATA_DIR]
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Log filter, such as info or respondent=debug [env: RESPONDENT_LOG]
    #[arg(long, global = true, value_name = "FILTER")]
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

    /// Directories inside `dir`, separate from the user's; for tests.
    pub fn under(dir: &Path) -> Self {
        Self {
            working: dir.to_owned(),
            home: dir.to_owned(),
            config: dir.join("config"),
            data: dir.join("data"),
        }
    }

    /// Resolves a path that a configuration file in `dir` contains: it may be absolute,
    /// begin with `~`, or be relative to that file.
    pub fn resolve(&self, dir: &Path, path: &Path) -> PathBuf {
        path.strip_prefix("~")
            .map_or_else(|_| dir.join(path), |rest| self.home.join(rest))
    }
}

/// Everything besides files that determines a configuration.
pub struct Inputs {
    /// The command-line flags.
    pub flags: Flags,
    /// The environment variables.
    pub environment: Box<dyn Environment>,
    /// The user's directories.
    pub dirs: UserDirs,
}

/// Where the configuration is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigPaths {
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
    /// The directory with one file per provider; it need not exist.
    pub providers_dir: PathBuf,
}

impl Inputs {
    /// The inputs of this process.
    pub fn from_process(flags: Flags) -> Result<Self, etcetera::HomeDirError> {
        Ok(Self {
            flags,
            environment: Box::new(ProcessEnvironment),
            dirs: UserDirs::from_process()?,
        })
    }

    /// Finds the configuration file: the one named by flag or variable, else the one in the
    /// working directory, else the one in the user's configuration directory. The
    /// `providers/` directory is beside the file; without a file it is the user's.
    pub fn config_paths(&self) -> ConfigPaths {
        let named = self.flags.config.clone();
        let named = named.or_else(|| self.environment.get("RESPONDENT_CONFIG").map(PathBuf::from));
        let defaults =
            [&self.dirs.working, &self.dirs.config].map(|dir| dir.join(CONFIG_FILE_NAME));
        let file = named.or_else(|| defaults.into_iter().find(|path| path.is_file()));
        let dir = file
            .as_deref()
            .map_or(self.dirs.config.as_path(), parent_dir);
        ConfigPaths {
            providers_dir: dir.join("providers"),
            file,
        }
    }
}

/// The directory that contains `file`.
pub fn parent_dir(file: &Path) -> &Path {
    file.parent().unwrap_or_else(|| Path::new(""))
}
