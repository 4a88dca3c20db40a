//! The program: reads the command line and the configuration, then does what it
//! was asked for.

use std::io::{self, Write};
use std::panic;
use std::process::ExitCode;

use clap::Parser;
use respondent::cli::{BAD_CONFIG, BAD_FILE, Bundle, Cli, Codex, Command, NO_REPLAY, SAME};
use respondent::commands::bundle::Unusable;
use respondent::commands::{self, say};
use respondent::config::{self, ConfigError, Inputs};
use respondent::diagnostics::log;
use respondent::diagnostics::replay::ReplayError;
use respondent::start;

fn main() -> ExitCode {
    // The payload of a panic may quote what was said, so the place alone is told.
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        writeln!(io::stderr(), "respondent: a defect at {place}").ok();
    }));
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
    match run(cli.command.unwrap_or_default(), inputs) {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(code_of(&error), &format!("{error:#}")),
    }
}

/// The exit code of what went wrong.
fn code_of(error: &anyhow::Error) -> u8 {
    if error.is::<ConfigError>() {
        return BAD_CONFIG;
    }
    if error.is::<Unusable>() {
        return BAD_FILE;
    }
    match error.downcast_ref() {
        None => 1,
        Some(ReplayError::NoModel(_)) => BAD_CONFIG,
        Some(ReplayError::NotWhole(_) | ReplayError::Damaged(_)) => BAD_FILE,
        Some(
            ReplayError::Io(_)
            | ReplayError::Stuck { .. }
            | ReplayError::Endless
            | ReplayError::Lost,
        ) => NO_REPLAY,
    }
}

/// The exit code.
fn run(command: Command, inputs: Inputs) -> anyhow::Result<u8> {
    match command {
        Command::Check => say(&config::report::report(&config::load(&inputs)?))?,
        Command::Models { provider, json } => {
            let asked = commands::models::Asked {
                provider: provider.as_deref(),
                json,
            };
            say(&commands::models::models(&config::load(&inputs)?, asked)?)?;
        }
        Command::Codex(Codex::Print) => say(&commands::codex_print(&config::load(&inputs)?))?,
        Command::Codex(Codex::Catalog { codex, output }) => {
            let config = config::load(&inputs)?;
            say(&runtime()?.block_on(commands::codex_catalog(&config, &codex, output))?)?;
        }
        Command::Bundle(command) => return bundle(command, &inputs),
        Command::Artifacts(command) => {
            let config = config::load(&inputs)?;
            runtime()?.block_on(commands::artifacts::run(&config, command))?;
        }
        Command::Mcp => {
            let config = config::load(&inputs)?;
            runtime()?.block_on(commands::mcp::serve(config))?;
        }
        Command::Replay {
            file,
            turn,
            live,
            events,
        } => {
            let asked = commands::replay::Asked {
                file: &file,
                turn,
                events,
            };
            return match live {
                None => commands::replay::offline(asked),
                Some(model) => {
                    let config = config::load(&inputs)?;
                    install_tls()?;
                    commands::replay::to_provider(asked, &config, &model)
                }
            };
        }
        Command::Serve => {
            let config = config::load(&inputs)?;
            let format = match config.server.log_format {
                config::LogFormat::Human => log::Format::Human,
                config::LogFormat::Json => log::Format::Json,
            };
            log::init(&config.server.log, format)?;
            runtime()?.block_on(start::serve(inputs, config))?;
        }
    }
    Ok(SAME)
}

/// What only reads files asks for no configuration: a report is looked at on any
/// machine.
fn bundle(command: Bundle, inputs: &Inputs) -> anyhow::Result<u8> {
    match command {
        Bundle::Create {
            select,
            output,
            images,
            encrypted,
        } => {
            let config = config::load(inputs)?;
            let wanted = select.wanted(images, encrypted);
            let create = commands::bundle::create(&config, &wanted, output.as_deref());
            runtime()?.block_on(create)?;
        }
        Bundle::List { json } => {
            let config = config::load(inputs)?;
            runtime()?.block_on(commands::bundle::list(&config, json))?;
        }
        Bundle::Show { file } => commands::bundle::show(&file)?,
        Bundle::Diff { a, b } => return commands::bundle::diff(&a, &b),
    }
    Ok(SAME)
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    install_tls()?;
    Ok(tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?)
}

fn install_tls() -> anyhow::Result<()> {
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        anyhow::bail!("the TLS provider was set up twice");
    }
    Ok(())
}

fn fail(code: u8, why: &dyn std::fmt::Display) -> ExitCode {
    writeln!(io::stderr(), "respondent: {why}").ok();
    ExitCode::from(code)
}
