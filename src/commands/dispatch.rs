//! Runs the program: parses the command line, loads the configuration, runs the command, and
//! turns errors into exit codes.

use std::io::{self, Write};
use std::panic;
use std::process::ExitCode;
use std::time::Duration;

use clap::FromArgMatches;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use super::background;
use super::bundle::UnusableFile;
use super::cli::{
    BundleCommand, Cli, CliCommand, ClientsCommand, CodexCommand, EXIT_BAD_FILE, EXIT_BAD_USAGE,
    EXIT_OK, EXIT_REPLAY_FAILED, RunCommand, ServiceCommand,
};
use super::{print_error, print_failure, print_labelled, print_text};
use crate::app::status::StatusLength;
use crate::app::web::{ScrapeBody, SearchBody};
use crate::config::{self, Config, ConfigErrors, Inputs, LoadPurpose};
use crate::diagnostics::replay::ReplayError;
#[cfg(feature = "pdf")]
use crate::tools::web::pdf::process::{self, PDF_ARGUMENT};
use crate::{commands, log};

/// How long the end of the program waits for blocking threads.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(400);

/// Runs the command that the process was started with, to its end. Called once, by `main`.
pub fn run_program() -> ExitCode {
    // A panic's payload may quote prompts or outputs, so print only its location.
    panic::set_hook(Box::new(|info| {
        let location = info.location().map(ToString::to_string).unwrap_or_default();
        writeln!(io::stderr(), "respondent: a defect at {location}").ok();
    }));
    // A process of the server for one file: it needs nothing else, and is no command for people.
    #[cfg(feature = "pdf")]
    if std::env::args_os()
        .nth(1)
        .is_some_and(|it| it == PDF_ARGUMENT)
    {
        let converted = process::convert();
        return converted.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let color = commands::color_of(std::env::args_os().skip(1));
    commands::set_color(color);
    let parsed = Cli::grouped().color(color).try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            error.print().ok();
            return if error.use_stderr() {
                ExitCode::from(EXIT_BAD_USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    commands::set_color(cli.color);
    let inputs = match Inputs::from_process(cli.flags) {
        Ok(inputs) => inputs,
        Err(error) => return fail(1, &error),
    };
    match run(cli.command.unwrap_or_default(), inputs) {
        Ok(code) => ExitCode::from(code),
        Err(error) => match error.downcast_ref::<ConfigErrors>() {
            Some(errors) => {
                for error in errors.all() {
                    fail(EXIT_BAD_USAGE, error);
                }
                ExitCode::from(EXIT_BAD_USAGE)
            }
            None => fail(exit_code(&error), &format!("{error:#}")),
        },
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<UnusableFile>() {
        return EXIT_BAD_FILE;
    }
    match error.downcast_ref() {
        None => 1,
        Some(ReplayError::NoModel(_)) => EXIT_BAD_USAGE,
        Some(ReplayError::Incomplete(_) | ReplayError::Damaged(_)) => EXIT_BAD_FILE,
        Some(
            ReplayError::Io(_)
            | ReplayError::Stuck { .. }
            | ReplayError::Endless
            | ReplayError::Stopped
            | ReplayError::NoTurn,
        ) => EXIT_REPLAY_FAILED,
    }
}

/// Runs a command and returns its exit code.
fn run(command: CliCommand, inputs: Inputs) -> anyhow::Result<u8> {
    match command {
        CliCommand::Check { json } => {
            let config = commands::load_for_check(&inputs)?;
            if json {
                commands::print_json(&config::report::json_report(&config))?;
            } else {
                print_labelled(&config::report::report(&config))?;
                print_text(&block_on(commands::check::about_server(&config))?)?;
            }
        }
        CliCommand::Schema { provider } => {
            let schema = if provider {
                config::schema::of_provider()
            } else {
                config::schema::of_config()
            };
            print_text(&format!("{:#}\n", schema.as_value()))?;
        }
        CliCommand::Models {
            provider,
            learned: true,
            json,
            ..
        } => {
            let config = load_without_keys(&inputs)?;
            block_on(commands::learned::run(&config, provider.as_deref(), json))?;
        }
        CliCommand::Models {
            provider,
            all,
            learned: false,
            json,
        } => {
            let options = commands::models::ModelListOptions {
                provider: provider.as_deref(),
                all,
                json,
            };
            let config = load_without_keys(&inputs)?;
            block_on(commands::models::run(&inputs, config, options))?;
        }
        CliCommand::Doctor(args) => {
            // Tells of a file that is not read.
            load_without_keys(&inputs)?;
            return block_on(commands::doctor::run(inputs, args));
        }
        CliCommand::Codex(command) => print_text(&codex(command, &inputs)?)?,
        CliCommand::Status { all, json } => {
            let config = load_without_keys(&inputs)?;
            let length = if all {
                StatusLength::All
            } else {
                StatusLength::Short
            };
            block_on(commands::status::run(&config, length, json))?;
        }
        CliCommand::Usage { since, json } => {
            let config = load_without_keys(&inputs)?;
            block_on(commands::usage::run(&config, since, json))?;
        }
        CliCommand::Run(RunCommand::Codex { model, codex, args }) => {
            let config = load_for(&inputs, LoadPurpose::AskProvider)?;
            let options = commands::run::RunOptions { model, codex, args };
            return block_on(commands::run::codex(inputs, config, options));
        }
        CliCommand::Bundle(command) => return bundle(command, &inputs),
        CliCommand::Artifacts(command) => {
            let config = load_without_keys(&inputs)?;
            return block_on(commands::artifacts::run(&config, command));
        }
        CliCommand::Search {
            words,
            results,
            domains,
            json,
        } => {
            let config = load_without_keys(&inputs)?;
            let body = SearchBody {
                query: words.join(" "),
                results,
                allowed_domains: domains,
                ..SearchBody::default()
            };
            return block_on(commands::web::search(&config, body, json));
        }
        CliCommand::Open {
            url,
            find,
            query,
            from,
            markdown,
            json,
        } => {
            let config = load_without_keys(&inputs)?;
            let body = ScrapeBody {
                url,
                query,
                from,
                find,
                markdown,
            };
            return block_on(commands::web::open(&config, body, json));
        }
        CliCommand::Jobs(command) => {
            let config = load_without_keys(&inputs)?;
            return block_on(commands::jobs::run(&config, command));
        }
        CliCommand::Workflows(command) => {
            let config = load_without_keys(&inputs)?;
            return block_on(commands::workflows::run(&config, command));
        }
        CliCommand::Store(command) => {
            let config = load_without_keys(&inputs)?;
            return block_on(commands::store::run(&config, command));
        }
        CliCommand::Clients(command) => match command {
            ClientsCommand::Add { name } => print_text(&commands::clients::add(&name)?)?,
            ClientsCommand::List { json } => {
                commands::clients::list(&load_without_keys(&inputs)?, json)?;
            }
            ClientsCommand::Remove { name } => {
                let config = load_without_keys(&inputs)?;
                print_text(&commands::clients::remove(&config, &name)?)?;
            }
        },
        CliCommand::Mcp => {
            let config = load_without_keys(&inputs)?;
            block_on(commands::mcp::serve(config))?;
        }
        CliCommand::Replay {
            file,
            turn,
            live,
            events,
        } => {
            let options = commands::replay::ReplayOptions {
                file: &file,
                turn,
                events,
            };
            return match live {
                None => commands::replay::offline(options),
                Some(model) => {
                    let config = load_for(&inputs, LoadPurpose::AskProvider)?;
                    install_tls()?;
                    commands::replay::against_provider(options, &config, &model)
                }
            };
        }
        CliCommand::Completions { shell } => commands::manual::print_completions(shell)?,
        CliCommand::Man { dir } => commands::manual::manual(dir.as_deref())?,
        CliCommand::Start => {
            let config = load_without_keys(&inputs)?;
            return block_on(background::start(&inputs, &config));
        }
        CliCommand::Stop => {
            let config = load_without_keys(&inputs)?;
            block_on(background::stop(&config))?;
        }
        CliCommand::Restart => {
            let config = load_without_keys(&inputs)?;
            return block_on(background::restart(&inputs, &config));
        }
        CliCommand::Logs { lines, follow } => {
            let config = load_without_keys(&inputs)?;
            block_on(background::logs::run(&config, lines, follow))?;
        }
        CliCommand::Service(ServiceCommand::Install { dry_run }) => {
            let config = load_without_keys(&inputs)?;
            block_on(commands::service::install(&inputs, &config, dry_run))?;
        }
        CliCommand::Service(ServiceCommand::Remove { dry_run }) => {
            commands::service::remove(&inputs, dry_run)?;
        }
        CliCommand::Serve => {
            let is_detached = background::detach(inputs.environment.as_ref());
            let purpose = if is_detached {
                LoadPurpose::AskProvider
            } else {
                LoadPurpose::Serve
            };
            let config = config::load(&inputs, purpose)?;
            let (filter, format) = (&config.server.log, config.server.log_format);
            if is_detached || background::is_behind_terminal() {
                log::init_in_file(filter, format, &background::log_file(&config))?;
            } else {
                log::init(filter, format)?;
            }
            block_on(commands::serve::run_server(inputs, purpose, config))?;
        }
    }
    Ok(EXIT_OK)
}

/// Runs a `codex` command and returns what to print.
fn codex(command: CodexCommand, inputs: &Inputs) -> anyhow::Result<String> {
    match command {
        CodexCommand::Setup {
            model,
            default,
            dry_run,
            codex,
        } => {
            let config = load_without_keys(inputs)?;
            let options = commands::codex::SetupOptions {
                model: model.as_deref(),
                as_default: default,
                dry_run,
                codex: &codex,
            };
            block_on(commands::codex::setup(inputs, config, options))
        }
        CodexCommand::Remove => commands::codex::remove(),
        CodexCommand::Status => {
            let config = load_without_keys(inputs)?;
            block_on(commands::codex::status::run(&config, &inputs.flags))
        }
    }
}

/// The configuration of a command that needs no key of a provider.
fn load_without_keys(inputs: &Inputs) -> Result<Config, ConfigErrors> {
    load_for(inputs, LoadPurpose::NeedNoKey)
}

/// The configuration of a command that ignores a file in the working directory; it says so.
fn load_for(inputs: &Inputs, purpose: LoadPurpose) -> Result<Config, ConfigErrors> {
    let config = config::load(inputs, purpose)?;
    if let Some(file) = &config.paths.ignored {
        print_error(&format!(
            "respondent: {} is not read: only serve and check read a file that was found in the working directory. Name it with --config to use it.\n",
            file.display()
        ));
    }
    Ok(config)
}

/// Runs a `bundle` command. Commands that only read bundle files load no configuration, so
/// that a bundle from a user can be inspected on any machine.
fn bundle(command: BundleCommand, inputs: &Inputs) -> anyhow::Result<u8> {
    match command {
        BundleCommand::Create {
            select,
            output,
            images,
            encrypted,
        } => {
            let config = load_without_keys(inputs)?;
            let wanted = select.wanted(images, encrypted);
            let create = commands::bundle::create(&config, &wanted, output.as_deref());
            block_on(create)?;
        }
        BundleCommand::List { limit, all, json } => {
            let config = load_without_keys(inputs)?;
            let limit = if all { usize::MAX } else { limit };
            block_on(commands::bundle::list(&config, limit, json))?;
        }
        BundleCommand::Show { file } => commands::bundle::show(&file)?,
        BundleCommand::Diff { a, b } => return commands::bundle::diff(&a, &b),
    }
    Ok(EXIT_OK)
}

/// Runs a command to its end. What it has left on blocking threads, such as a search, does not keep
/// the program from ending.
fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    install_tls()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    // A file that has reached the limit of its size (`ulimit -f`) is a full disk: with a handler,
    // which stays even without a listener, the write fails, and the program does not end.
    let exceeded = SignalKind::from_raw(Signal::XFSZ.as_raw());
    drop(runtime.block_on(async { signal(exceeded) })?);
    let result = runtime.block_on(command);
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
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
    print_failure(why);
    ExitCode::from(code)
}
