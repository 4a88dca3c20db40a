//! The options of `respondent doctor`.

use std::ffi::OsString;

use clap::Args;

use crate::config::load::check_name;

/// The options of `respondent doctor`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command")]
pub struct DoctorArgs {
    /// Ask this provider only; with --url, the name to give the provider
    #[arg(long, value_name = "ID", value_parser = provider_name)]
    pub provider: Option<String>,
    /// Ask for this model instead of the first one
    #[arg(long)]
    pub model: Option<String>,
    /// Ask the provider at this address, which need not be configured
    #[arg(long)]
    pub url: Option<String>,
    /// The environment variable with the key for --url
    #[arg(long, value_name = "NAME", requires = "url")]
    pub key_env: Option<String>,
    /// Also send a prompt that is larger than the window, which may be charged for
    #[arg(long)]
    pub overflow: bool,
    /// Also search the web with each search engine, which may be charged for
    #[arg(long)]
    pub search: bool,
    /// Write the provider file, beside the configuration, if it does not exist
    #[arg(long)]
    pub write: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The Codex program
    #[arg(long, value_name = "FILE", default_value = "codex")]
    pub codex: OsString,
}

fn provider_name(name: &str) -> Result<String, &'static str> {
    check_name(name).map(|()| name.to_owned())
}
