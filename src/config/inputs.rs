//! What a configuration is made from, and where its file is.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

/// Name of the file in the working directory and in the user's folder.
pub const CONFIG_FILE_NAME: &str = "proxy-config.toml";

/// Our folder in the user's configuration and data directories.
const DIR_NAME: &str = "respondent";

/// Environment variables, so that tests need not change the process.
pub trait Environment: Send + Sync {
    /// The value of a variable; none if unset or empty.
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

/// The flags that configure; each has its `RESPONDENT_*` variable.
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

/// The folders of the user and the process.
#[derive(Clone, Debug)]
pub struct UserDirs {
    /// Where the program was started.
    pub working: PathBuf,
    /// The user's home.
    pub home: PathBuf,
    /// Our folder for configuration.
    pub config: PathBuf,
    /// Our folder for data.
    pub data: PathBuf,
}

impl UserDirs {
    /// The folders of the user who runs this process.
    pub fn of_process() -> Result<Self, etcetera::HomeDirError> {
        let base = etcetera::choose_base_strategy()?;
        Ok(Self {
            working: PathBuf::from("."),
            home: base.home_dir().to_owned(),
            config: base.config_dir().join(DIR_NAME),
            data: base.data_dir().join(DIR_NAME),
        })
    }

    /// Folders inside `folder`, apart from the user's; for tests.
    pub fn under(folder: &Path) -> Self {
        Self {
            working: folder.to_owned(),
            home: folder.to_owned(),
            config: folder.join("config"),
            data: folder.join("data"),
        }
    }

    /// `path` as written in a file of `folder`: absolute, under `~`, or beside
    /// the file.
    pub fn resolve(&self, folder: &Path, path: &Path) -> PathBuf {
        path.strip_prefix("~")
            .map_or_else(|_| folder.join(path), |rest| self.home.join(rest))
    }
}

/// All that a configuration is made from besides files.
pub struct Inputs {
    /// The command line.
    pub flags: Flags,
    /// Variables.
    pub environment: Box<dyn Environment>,
    /// Folders.
    pub dirs: UserDirs,
}

/// The files that may exist now or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigPaths {
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
    /// The folder with one file a provider; it need not exist.
    pub providers_dir: PathBuf,
}

impl Inputs {
    /// The inputs of this process.
    pub fn from_process(flags: Flags) -> Result<Self, etcetera::HomeDirError> {
        Ok(Self {
            flags,
            environment: Box::new(ProcessEnvironment),
            dirs: UserDirs::of_process()?,
        })
    }

    /// Where to read: the file that was named, else the one in the working
    /// directory, else the user's, else only the user's `providers/`.
    pub fn config_paths(&self) -> ConfigPaths {
        let named = self.flags.config.clone();
        let named = named.or_else(|| self.environment.get("RESPONDENT_CONFIG").map(PathBuf::from));
        let usual =
            [&self.dirs.working, &self.dirs.config].map(|folder| folder.join(CONFIG_FILE_NAME));
        let file = named.or_else(|| usual.into_iter().find(|path| path.is_file()));
        let folder = file
            .as_deref()
            .map_or(self.dirs.config.as_path(), parent_dir);
        ConfigPaths {
            providers_dir: folder.join("providers"),
            file,
        }
    }
}

/// The folder that holds `file`.
pub fn parent_dir(file: &Path) -> &Path {
    file.parent().unwrap_or_else(|| Path::new(""))
}
