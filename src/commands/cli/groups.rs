//! The help of the program as a whole, with its commands in groups.

use std::fmt::Write as _;

use clap::Command;

use crate::log::{TERMINAL_WIDTH, wrapped};

/// The groups and their commands, in the order of the help.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Use", USE),
    ("Look", LOOK),
    ("Share", &["clients", "mcp", "schema", "completions", "man"]),
    ("Repair", &["doctor", "bundle", "replay", "store", "help"]),
];

const USE: &[&str] = &[
    "run",
    "start",
    "stop",
    "restart",
    "serve",
    "service",
    "codex",
    "search",
    "open",
    "workflows",
];

const LOOK: &[&str] = &[
    "status",
    "logs",
    "usage",
    "models",
    "check",
    "artifacts",
    "jobs",
];

/// The column in which the explanation of a command begins.
const COLUMN: usize = 15;

/// The program's command, whose help shows its commands in groups.
pub(super) fn grouped(mut command: Command) -> Command {
    // Adds the command `help`.
    command.build();
    let groups = text(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    ))
}

fn text(command: &Command) -> String {
    let mut text = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(text, "{group}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let mut name = *name;
            for line in wrapped(&about, usize::from(TERMINAL_WIDTH) - COLUMN) {
                let _ = writeln!(text, "  {name:width$}{line}", width = COLUMN - 2);
                name = "";
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::Cli;
    use super::*;

    #[test]
    fn the_help_shows_each_command_once_in_80_columns() {
        let mut command = grouped(Cli::command());
        let help = command.render_help().to_string();
        let known = command.get_subcommands().map(Command::get_name);
        for name in known.chain(["help"]) {
            let shown = help
                .lines()
                .filter(|line| line.starts_with(&format!("  {name} ")));
            assert_eq!(shown.count(), 1, "{name}: {help}");
        }
        for (_, names) in GROUPS {
            for name in names {
                assert!(command.find_subcommand(name).is_some(), "{name}");
            }
        }
        let groups = text(&command);
        let too_long = groups.lines().find(|line| line.chars().count() > 80);
        assert_eq!(too_long, None, "{groups}");
    }
}
