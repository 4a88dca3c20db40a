//! The program: reads the command line and the configuration, then does what it
//! was asked for.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use respondent::cli::{BAD_CONFIG, Cli, Command};
use respondent::config::{self, Config, Inputs};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            error.print().ok();
            return if error.use_stderr() {
                ExitCode::from(BAD_CONFIG)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let inputs = match Inputs::of_process(cli.flags) {
        Ok(inputs) => inputs,
        Err(error) => return fail(1, &error),
    };
    let config = match config::load(&inputs) {
        Ok(config) => config,
        Err(error) => return fail(BAD_CONFIG, &error),
    };
    match run(&cli.command.unwrap_or_default(), &config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(1, &format!("{error:#}")),
    }
}

fn run(command: &Command, config: &Config) -> anyhow::Result<()> {
    match command {
        Command::Check => say(&config::report::report(config)),
        Command::Serve | Command::Codex(_) | Command::Sandbox { .. } => {
            anyhow::bail!("this build only checks configurations")
        }
    }
}

fn say(text: &str) -> anyhow::Result<()> {
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

fn fail(code: u8, why: &dyn std::fmt::Display) -> ExitCode {
    writeln!(std::io::stderr(), "respondent: {why}").ok();
    ExitCode::from(code)
}
