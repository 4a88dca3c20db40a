//! What a configuration is loaded for.

/// What a configuration is loaded for. It decides which file is read, and whether keys are. Each
/// command of the program has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadPurpose {
    /// `serve` and `check`: the file may be one that was found in the working directory. All
    /// keys are read.
    Serve,
    /// A command that asks a provider. A file in the working directory must be named to be
    /// read. All keys are read.
    AskProvider,
    /// A command that needs no key. A file in the working directory must be named to be read.
    /// No key file is read and no key command is run.
    NeedNoKey,
}

impl LoadPurpose {
    /// Whether a configuration file is searched for in the working directory.
    pub fn searches_working_directory(self) -> bool {
        match self {
            Self::Serve => true,
            Self::AskProvider | Self::NeedNoKey => false,
        }
    }

    /// Whether key files are read and key commands are run.
    pub fn reads_keys(self) -> bool {
        match self {
            Self::Serve | Self::AskProvider => true,
            Self::NeedNoKey => false,
        }
    }
}
