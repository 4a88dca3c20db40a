//! `respondent completions` and `respondent man`: the command line as scripts for shells and as
//! manual pages.

use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use super::cli::Cli;
use super::{print_bytes, print_text};

/// Prints the script that completes the command line in a shell.
pub fn print_completions(shell: Shell) -> anyhow::Result<()> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    print_bytes(&script)
}

/// Writes the manual pages of all commands to a directory, which is created if it is missing.
/// Without a directory, prints the page of the program.
pub fn manual(dir: Option<&Path>) -> anyhow::Result<()> {
    let command = Cli::command();
    let Some(dir) = dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        return print_bytes(&page);
    };
    let unwritten = || format!("the manual pages cannot be written to {}", dir.display());
    std::fs::create_dir_all(dir).with_context(unwritten)?;
    clap_mangen::generate_to(command, dir).with_context(unwritten)?;
    print_text(&format!("Wrote the manual pages to {}.\n", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::manual;

    #[test]
    fn every_command_gets_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let pages = dir.path().join("man1");
        manual(Some(&pages)).unwrap();
        for (name, text) in [
            ("respondent.1", "RESPONDENT_LISTEN"),
            ("respondent-bundle-create.1", "since"),
            ("respondent-artifacts-gc.1", "quota"),
        ] {
            let page = std::fs::read_to_string(pages.join(name)).unwrap();
            assert!(page.contains(text), "{name}: {page}");
        }
    }
}
