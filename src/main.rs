//! The program: reads the command line and the configuration, then does what it
//! was asked for.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use respondent::cli::{BAD_CONFIG, Cli, Codex, Command};
use respondent::commands::{self, say};
use respondent::config::{self, Config, Inputs};
use respondent::diagnostics::log;
use respondent::{sandbox, start};

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
    match run(cli.command.unwrap_or_default(), inputs, config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(1, &format!("{error:#}")),
    }
}

fn run(command: Command, inputs: Inputs, config: Config) -> anyhow::Result<()> {
    match command {
        Command::Check => say(&config::report::report(&config)),
        Command::Models { provider, json } => {
            let asked = commands::models::Asked {
                provider: provider.as_deref(),
                json,
            };
            say(&commands::models::models(&config, asked)?)
        }
        Command::Codex(Codex::Print) => say(&commands::codex_print(&config)),
        Command::Codex(Codex::Catalog { codex, output }) => {
            say(&runtime()?.block_on(commands::codex_catalog(&config, &codex, output))?)
        }
        Command::Sandbox { script } => {
            runtime()?.block_on(sandbox::run(&script, config.server.listen))
        }
        Command::Serve => {
            let format = match config.server.log_format {
                config::LogFormat::Human => log::Format::Human,
                config::LogFormat::Json => log::Format::Json,
            };
            log::init(&config.server.log, format)?;
            runtime()?.block_on(start::serve(inputs, config))
        }
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        anyhow::bail!("the TLS provider was set up twice");
    }
    Ok(tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?)
}

fn fail(code: u8, why: &dyn std::fmt::Display) -> ExitCode {
    writeln!(std::io::stderr(), "respondent: {why}").ok();
    ExitCode::from(code)
}
