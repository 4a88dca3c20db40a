use std::time::Duration;

use clap::error::ErrorKind;

use super::*;
use crate::diagnostics::selection::Selection;

fn parse(line: &str) -> Cli {
    Cli::try_parse_from(line.split(' ')).unwrap()
}

#[test]
fn the_definition_of_the_command_line_is_valid() {
    Cli::command().debug_assert();
}

/// The command with this path, such as `bundle create`, and all those below it.
fn commands(path: &str, command: &clap::Command) -> Vec<(String, clap::Command)> {
    let mut all = vec![(path.to_owned(), command.clone())];
    for inner in command.get_subcommands() {
        if inner.get_name() != "help" {
            all.extend(commands(&format!("{path} {}", inner.get_name()), inner));
        }
    }
    all
}

#[test]
fn every_command_has_examples_that_can_be_parsed() {
    let mut cli = Cli::command();
    cli.build();
    let mut examples = 0;
    for (path, command) in commands("respondent", &cli) {
        let help = command.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        let has_inner = command.get_subcommands().next().is_some();
        assert!(has_inner || help.contains(&format!("  {path}")), "{path}");
        for line in help.lines() {
            let Some(line) = line.strip_prefix("  respondent") else {
                continue;
            };
            // What follows two spaces explains the example; what follows a sign is the shell's.
            let line = line.split("  ").next().unwrap();
            let line = line.split([';', '|', '>', '&']).next().unwrap();
            let words = line.split_whitespace().map(|word| word.trim_matches('\''));
            let parsed = Cli::try_parse_from(std::iter::once("respondent").chain(words));
            let is_help = |error: &clap::Error| error.kind() == ErrorKind::DisplayHelp;
            assert!(
                parsed.as_ref().map_or_else(is_help, |_| true),
                "{path}: {line}: {parsed:?}"
            );
            examples += 1;
        }
    }
    assert!(examples > 20, "{examples}");
}

#[test]
fn the_global_flags_have_a_heading_of_their_own() {
    let mut cli = Cli::command();
    cli.build();
    for (path, command) in commands("respondent", &cli) {
        let help = command.clone().render_long_help().to_string();
        let (own, global) = help.split_once("\nGlobal options:\n").unwrap();
        for flag in ["--config", "--listen", "--data-dir", "--log", "--color"] {
            assert!(!own.contains(&format!("{flag} <")), "{path}: {flag}");
            assert!(global.contains(&format!("{flag} <")), "{path}: {flag}");
        }
    }
}

#[test]
fn flags_go_before_or_after_the_command() {
    for line in [
        "respondent --listen [::1]:1 check",
        "respondent check --listen [::1]:1",
    ] {
        let cli = parse(line);
        assert_eq!(cli.flags.listen.as_deref(), Some("[::1]:1"));
        assert_eq!(cli.command, Some(CliCommand::Check { json: false }));
    }
}

#[test]
fn serve_is_the_default() {
    assert_eq!(
        parse("respondent").command.unwrap_or_default(),
        CliCommand::Serve
    );
    assert_eq!(parse("respondent serve").command, Some(CliCommand::Serve));
}

#[test]
fn turns_are_selected_by_at_most_one_flag() {
    let selected = |flags: &str| {
        let line = format!("respondent bundle create{flags}");
        match Cli::try_parse_from(line.split(' ')).map(|cli| cli.command) {
            Ok(Some(CliCommand::Bundle(BundleCommand::Create { select, .. }))) => {
                Some(select.into())
            }
            Ok(_) | Err(_) => None,
        }
    };
    for (flags, select) in [
        ("", Selection::Failed),
        (" --images --encrypted", Selection::Failed),
        (" --last", Selection::Last),
        (" --response resp_1", Selection::Response("resp_1".into())),
        (" --request req_1", Selection::Request("req_1".into())),
        (" --since 1h", Selection::Since(Duration::from_hours(1))),
    ] {
        assert_eq!(selected(flags), Some(select), "{flags}");
    }
    for bad in [
        " --last --since 1h",
        " --response a --request b",
        " --since 1w",
        " --response ../x",
        " --response",
    ] {
        assert_eq!(selected(bad), None, "{bad}");
    }
}

#[test]
fn a_provider_has_a_name_and_no_path() {
    let doctor = |name: &str| {
        let words = ["respondent", "doctor", "--provider", name];
        Cli::try_parse_from(words).map_err(|error| error.to_string())
    };
    for good in ["lab", "my-lab_2.local"] {
        assert!(doctor(good).is_ok(), "{good}");
    }
    for bad in [
        "../../x", "/x", "A B", "a/b", "a\\b", "", "é", "a\nb", "a\"b",
    ] {
        let why = doctor(bad).unwrap_err();
        assert!(why.contains("letters, digits, '.', '_' and '-'"), "{why}");
    }
}

#[test]
fn turns_count_from_one() {
    for (n, fits) in [("1", true), ("20", true), ("0", false), ("-1", false)] {
        let line = format!("respondent replay a.tar.zst --turn {n}");
        assert_eq!(Cli::try_parse_from(line.split(' ')).is_ok(), fits, "{line}");
    }
}
