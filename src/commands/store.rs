//! `respondent store`: the database in the data directory.
//!
//! What only reads uses a connection of its own, in the data directory of the running server if
//! there is one. What writes needs the data directory for itself; a running server is asked to
//! delete everything.

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::Context;
use bytes::Bytes;
use comfy_table::CellAlignment::{Left, Right};
use http::Method;
use serde::Serialize;

use super::cli::{EXIT_DIFFERENT, EXIT_OK, StoreCommand};
use super::progress::Progress;
use super::status::of_server;
use super::{ok_body, parse_answer, print_error, print_json, print_text};
use crate::app::store::PurgeReport;
use crate::clock::{Clock, System};
use crate::config::Config;
use crate::control::{ControlClient, ControlError};
use crate::log::{ByteCount, SafeText, table};
use crate::net::LOCAL_OWNER;
use crate::store::{DataDir, ImportCounts, OpenError, Store, StoreContents, StoreReading};

/// The path of everything that is stored.
const STORE_PATH: &str = "/diagnostics/store";
/// The characters of an owner in the table, so that its lines fit a terminal.
const MAX_OWNER_CHARS: usize = 12;

/// Runs a `respondent store` command and returns its exit code.
pub async fn run(config: &Config, command: StoreCommand) -> anyhow::Result<u8> {
    match command {
        StoreCommand::Stats { json } => stats(&data_dir(config).await, json)?,
        StoreCommand::Check => return check(&data_dir(config).await),
        StoreCommand::Backup { file } => back_up(&data_dir(config).await, &file)?,
        StoreCommand::Export { file } => export(&data_dir(config).await, &file)?,
        StoreCommand::Import { file } => import(config, &file).await?,
        StoreCommand::Purge { yes } => purge(config, yes).await?,
    }
    Ok(EXIT_OK)
}

/// A database that is read, and the data directory that stays locked meanwhile if no server uses
/// it.
pub(super) struct OpenedStore {
    pub(super) reading: StoreReading,
    _lock: Option<Store>,
}

/// The data directory of the running server, which stores there what it has counted when it is
/// asked; without a server the configured one. Says on standard error whose it is.
pub(super) async fn data_dir(config: &Config) -> PathBuf {
    let control = ControlClient::new(config);
    let address = control.address();
    let own = &config.server.data_dir;
    let said = match control.check_health().await {
        Ok(_) => match of_server(&control).await {
            Ok(Some(report)) => {
                print_error(&format!("From the server on {address}.\n"));
                return report.disk.data_dir.into();
            }
            Ok(None) | Err(_) => format!("The server on {address} does not say where its data is"),
        },
        Err(ControlError::NotRunning(_)) => format!("No server runs on {address}"),
        // A server that hangs is no reason not to read its files.
        Err(error) => error.to_string(),
    };
    print_error(&format!("{said}; this is from {}.\n", own.display()));
    own.clone()
}

/// Opens the database of a data directory to read it.
pub(super) fn open(data_dir: &Path) -> anyhow::Result<OpenedStore> {
    open_existing(data_dir)?.with_context(|| format!("nothing is stored in {}", data_dir.display()))
}

/// Opens the database to read it; `None` if there is none. If no server runs, one of an older
/// version is migrated first.
pub(super) fn open_existing(data_dir: &Path) -> anyhow::Result<Option<OpenedStore>> {
    let data_dir = DataDir::new(data_dir);
    // A database that another process uses, or that cannot be written, may still be read.
    let lock = Store::open_existing(&data_dir).unwrap_or_default();
    let reading = StoreReading::open(&data_dir).context("the database cannot be read")?;
    Ok(reading.map(|reading| OpenedStore {
        reading,
        _lock: lock,
    }))
}

/// What `stats --json` prints.
#[derive(Serialize)]
struct StoreStats {
    #[serde(flatten)]
    contents: StoreContents,
    /// The database with the files beside it.
    file_bytes: u64,
    data_dir: String,
}

fn stats(data_dir: &Path, json: bool) -> anyhow::Result<()> {
    let stats = StoreStats {
        contents: open(data_dir)?.reading.contents()?,
        file_bytes: DataDir::new(data_dir).database_bytes(),
        data_dir: data_dir.display().to_string(),
    };
    if json {
        return print_json(&stats);
    }
    print_text(&stats.text())
}

impl StoreStats {
    /// As text for a terminal of the usual width.
    fn text(&self) -> String {
        let columns = [
            ("owner", Left, 5),
            ("outputs", Right, 7),
            ("bytes", Right, 8),
            ("responses", Right, 9),
            ("bytes", Right, 8),
            ("conversations", Right, 13),
            ("jobs", Right, 4),
        ];
        let rows = self.contents.owners.iter().map(|owner| {
            [
                SafeText::up_to(&owner.owner, MAX_OWNER_CHARS).to_string(),
                owner.artifacts.to_string(),
                ByteCount(owner.artifact_bytes).to_string(),
                owner.responses.to_string(),
                ByteCount(owner.response_bytes).to_string(),
                owner.conversations.to_string(),
                (owner.unfinished_jobs + owner.ended_jobs).to_string(),
            ]
        });
        let stored = if self.contents.owners.is_empty() {
            "Nothing is stored.\n".to_owned()
        } else {
            table(columns, rows)
        };
        format!(
            "{stored}\nLarge items that are stored once: {}\nFiles: {}, of which {} are free\n  in {}\n",
            ByteCount(self.contents.shared_bytes),
            ByteCount(self.file_bytes),
            ByteCount(self.contents.free_bytes),
            SafeText::new(&self.data_dir)
        )
    }
}

fn check(data_dir: &Path) -> anyhow::Result<u8> {
    let faults = {
        let _progress = Progress::begin("Reading the whole database");
        open(data_dir)?.reading.faults()?
    };
    if faults.is_empty() {
        print_text("The database is whole.\n")?;
        return Ok(EXIT_OK);
    }
    let lines = faults
        .iter()
        .map(|fault| format!("{}\n", SafeText::new(fault)));
    print_text(&lines.collect::<String>())?;
    print_text("The database is damaged: export what can be read, or go back to a backup.\n")?;
    Ok(EXIT_DIFFERENT)
}

fn back_up(data_dir: &Path, file: &Path) -> anyhow::Result<()> {
    let opened = open(data_dir)?;
    let bytes = {
        let _progress = Progress::begin("Copying the database");
        let copied = opened.reading.back_up(file);
        copied.with_context(|| cannot_write(file))?
    };
    let file = file.display().to_string();
    print_text(&format!(
        "Wrote {} to {}.\n",
        ByteCount(bytes),
        SafeText::new(&file)
    ))
}

fn export(data_dir: &Path, file: &Path) -> anyhow::Result<()> {
    let mut opened = open(data_dir)?;
    let _progress = Progress::begin("Writing responses and conversations");
    let exported = opened.reading.export(LOCAL_OWNER, file);
    let exported = exported.with_context(|| cannot_write(file))?;
    print_text(&format!("Wrote {}.\n", counted(exported)))
}

fn cannot_write(file: &Path) -> String {
    format!("{} cannot be written", file.display())
}

async fn import(config: &Config, file: &Path) -> anyhow::Result<()> {
    let data_dir = DataDir::new(&config.server.data_dir);
    let store = match Store::open(&data_dir, System.unix()) {
        Ok(store) => store,
        Err(OpenError::InUse(in_use)) => anyhow::bail!("{in_use}; stop it first"),
        Err(error @ OpenError::Unusable(_)) => return Err(error.into()),
    };
    let _progress = Progress::begin("Reading responses and conversations");
    let imported = store.import(LOCAL_OWNER, file.to_owned()).await;
    let imported = imported.with_context(|| format!("{} cannot be imported", file.display()))?;
    let mut text = format!("Imported {}.\n", counted(imported));
    if imported.skipped > 0 {
        text += &skipped_sentence(imported.skipped);
    }
    print_text(&text)
}

fn skipped_sentence(count: u64) -> String {
    match count {
        1 => "Skipped 1 whose id already exists.\n".to_owned(),
        count => format!("Skipped {count} whose ids already exist.\n"),
    }
}

fn counted(counts: ImportCounts) -> String {
    let of = |count: u64, one: &str| {
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} {one}{plural}")
    };
    format!(
        "{} and {}",
        of(counts.responses, "response"),
        of(counts.conversations, "conversation")
    )
}

async fn purge(config: &Config, yes: bool) -> anyhow::Result<()> {
    let folder = data_dir(config).await;
    if !yes {
        confirm(&folder.display().to_string())?;
    }
    let complete = match ControlClient::new(config)
        .send(&Method::DELETE, STORE_PATH, Bytes::new())
        .await
    {
        Ok(answered) => {
            let report: PurgeReport = parse_answer(&ok_body(answered)?)?;
            // A server that keeps nothing on disk leaves the files of an earlier one.
            let others = match Store::open_existing(&DataDir::new(&folder)) {
                Ok(Some(store)) => store.purge().await?,
                Ok(None) | Err(OpenError::InUse(_)) => true,
                Err(error @ OpenError::Unusable(_)) => return Err(error.into()),
            };
            report.complete && others
        }
        Err(ControlError::NotRunning(_)) => purge_offline(&folder).await?,
        Err(error) => return Err(error.into()),
    };
    print_text("Everything that was stored has been deleted.\n")?;
    if !complete {
        print_error(
            "respondent: another program reads the database, so its write-ahead log could not be emptied; close that program and purge again.\n",
        );
    }
    Ok(())
}

async fn purge_offline(folder: &Path) -> anyhow::Result<bool> {
    let data_dir = DataDir::new(folder);
    match Store::open_existing(&data_dir) {
        Ok(Some(store)) => Ok(store.purge().await?),
        Ok(None) => Ok(true),
        Err(OpenError::InUse(in_use)) => {
            anyhow::bail!("{in_use}; name the address that it listens on with --listen")
        }
        Err(error @ OpenError::Unusable(_)) => Err(error.into()),
    }
}

/// Asks whether everything should be deleted; an error if not.
fn confirm(folder: &str) -> anyhow::Result<()> {
    if !io::stdin().is_terminal() {
        anyhow::bail!("nothing was deleted: there is no terminal to ask on, so --yes is needed");
    }
    print_error(&format!(
        "All tool outputs, responses, conversations and usage in {} will be deleted.\nType yes to go on: ",
        SafeText::new(folder)
    ));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if answer.trim() == "yes" {
        Ok(())
    } else {
        anyhow::bail!("nothing was deleted")
    }
}
