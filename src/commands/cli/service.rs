//! The commands of the service that runs the server.

use clap::Subcommand;

use super::examples;

/// `respondent service`: a unit of systemd, or on macOS a job of launchd.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum ServiceCommand {
    /// Write the unit for this program and these flags, and start it
    ///
    /// A service has none of this shell's variables: the command says into which file the keys of
    /// providers go. A unit that something else wrote is left alone.
    #[command(after_help = examples::SERVICE_INSTALL)]
    Install {
        /// Print the unit and the commands, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Stop the service and delete its unit; the file with the keys stays
    #[command(after_help = examples::SERVICE_REMOVE)]
    Remove {
        /// Print what would be done, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
}
