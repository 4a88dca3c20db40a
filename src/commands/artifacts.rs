//! `respondent artifacts`: reads and deletes artifacts through the running server, or
//! directly in the store if no server runs.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use bytes::Bytes;
use comfy_table::CellAlignment::{Left, Right};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::cli::{ArtifactsCommand, EXIT_DIFFERENT, EXIT_OK};
use super::ids::complete_id;
use super::progress::Progress;
use super::{ok_body, parse_answer, print_bytes, print_json, print_text};
use crate::app::answer_artifact_request;
use crate::app::artifacts::{ArtifactList, ArtifactMatches};
use crate::artifacts::owner::{OwnerArtifacts, ReadError, is_artifact_id};
use crate::artifacts::search::{SearchQuery, format_lines};
use crate::artifacts::{Artifacts, OPEN_FAILED};
use crate::config::Config;
use crate::control::{ControlClient, ControlError};
use crate::diagnostics::listing::age;
use crate::log::{SafeText, short_id, table};
use crate::store::{ArtifactEntry, DataDir, OpenError, Store, SweepResult};

const ARTIFACTS_PATH: &str = "/v1/artifacts";

/// Maximum number of artifacts that the server returns in one page of a list.
const MAX_PAGE: usize = 100;

/// The characters of a session in the table, so that its lines fit a terminal.
const MAX_SESSION_CHARS: usize = 7;

/// Runs a `respondent artifacts` command and returns its exit code.
pub async fn run(config: &Config, command: ArtifactsCommand) -> anyhow::Result<u8> {
    let client = ArtifactClient::new(config);
    let done = match command {
        ArtifactsCommand::List {
            limit,
            after,
            session,
            json,
        } => list(&client, limit, after, session, json).await,
        ArtifactsCommand::Show {
            id,
            lines,
            bytes,
            json,
        } => {
            let id = client.whole_id(&id).await?;
            let mut path = artifact_path(&id) + "?format=" + if json { "json" } else { "text" };
            for (name, value) in [("lines", lines), ("bytes", bytes)] {
                if let Some(value) = value {
                    let _ = write!(path, "&{name}={}", percent_encoded(&value));
                }
            }
            print_body(&client.get(&path).await?, json)
        }
        ArtifactsCommand::Search {
            id,
            query,
            regex,
            ignore_case,
            context,
            limit,
            json,
        } => {
            // The server would name a parameter of its API, which the user did not type.
            SearchQuery::new(&query, regex, ignore_case)
                .with_context(|| format!("cannot search for `{}`", SafeText::new(&query)))?;
            let id = client.whole_id(&id).await?;
            let path = format!(
                "{}/search?q={}&regex={regex}&ignore_case={ignore_case}&context={context}&limit={limit}",
                artifact_path(&id),
                percent_encoded(&query)
            );
            let body = client.get(&path).await?;
            let found: ArtifactMatches = parse_answer(&body)?;
            if json {
                print_body(&body, true)?;
            } else {
                print_text(&matches_text(&found))?;
            }
            return Ok(if found.matches == 0 {
                EXIT_DIFFERENT
            } else {
                EXIT_OK
            });
        }
        ArtifactsCommand::Delete { ids } => {
            for typed in ids {
                let id = client.whole_id(&typed).await?;
                client.request(&Method::DELETE, &artifact_path(&id)).await?;
                print_text(&format!("Deleted {id}.\n"))?;
            }
            Ok(())
        }
        ArtifactsCommand::Gc { json } => {
            let body = client
                .request(&Method::DELETE, &format!("{ARTIFACTS_PATH}/expired"))
                .await?;
            if json {
                print_body(&body, true)?;
                return Ok(EXIT_OK);
            }
            let SweepResult { artifacts, bytes } = parse_answer(&body)?;
            let s = if artifacts == 1 { "" } else { "s" };
            print_text(&format!(
                "Deleted {artifacts} artifact{s}, {bytes} bytes.\n"
            ))
        }
    };
    done.map(|()| EXIT_OK)
}

async fn list(
    client: &ArtifactClient<'_>,
    limit: usize,
    after: Option<String>,
    session: Option<String>,
    json: bool,
) -> anyhow::Result<()> {
    let after = match after {
        Some(typed) => Some(client.whole_id(&typed).await?),
        None => None,
    };
    // The server limits the size of a page, so a longer list needs several requests.
    let mut list = ArtifactList {
        data: Vec::new(),
        has_more: true,
        first_id: None,
        last_id: after,
    };
    while list.has_more && list.data.len() < limit {
        let mut path = format!(
            "{ARTIFACTS_PATH}?limit={}",
            (limit - list.data.len()).min(MAX_PAGE)
        );
        for (name, value) in [("after", &list.last_id), ("session", &session)] {
            if let Some(value) = value {
                let _ = write!(path, "&{name}={}", percent_encoded(value));
            }
        }
        let page: ArtifactList = parse_answer(&client.get(&path).await?)?;
        list.has_more = page.has_more && !page.data.is_empty();
        list.first_id = list.first_id.or(page.first_id);
        list.last_id = page.last_id.or(list.last_id);
        list.data.extend(page.data);
    }
    if list.data.is_empty() {
        list.last_id = None;
    }
    if json {
        return print_json(&list);
    }
    if let Some(note) = client.offline_note() {
        print_text(&note)?;
    }
    if list.data.is_empty() {
        return print_text("No artifacts are stored.\n");
    }
    print_text(&artifact_table(&list.data, SystemTime::now()))?;
    match list.last_id {
        Some(last) if list.has_more => print_text(&format!(
            "There are older ones: `respondent artifacts list --after {}` lists them.\n",
            short_id(&last)
        )),
        Some(_) | None => Ok(()),
    }
}

/// The list of artifacts as a table.
fn artifact_table(rows: &[ArtifactEntry], now: SystemTime) -> String {
    let columns = [
        ("id", Left, 8),
        ("kind", Left, 4),
        ("bytes", Right, 9),
        ("lines", Right, 7),
        ("age", Right, 4),
        ("used ago", Right, 8),
        ("kept in", Left, 7),
        ("session", Left, 0),
    ];
    let cells = |row: &ArtifactEntry| {
        [
            SafeText::new(&short_id(&row.id)).to_string(),
            row.kind.name().to_owned(),
            row.bytes.to_string(),
            row.lines.to_string(),
            age(row.created.saturating_mul(1000), now),
            age(row.accessed.saturating_mul(1000), now),
            if row.persistent { "disk" } else { "memory" }.to_owned(),
            SafeText::up_to(&row.session, MAX_SESSION_CHARS).to_string(),
        ]
    };
    table(columns, rows.iter().map(cells))
}

fn matches_text(found: &ArtifactMatches) -> String {
    let mut out = match found.matches {
        0 => "No match.\n".to_owned(),
        _ => format_lines(&found.lines),
    };
    if let Some(limit) = found.match_limit {
        let _ = writeln!(
            out,
            "A line is so long that only matches of up to {limit} bytes are sure to be found in it."
        );
    }
    if found.has_more {
        let (shown, matches) = (found.shown, found.matches);
        let _ = writeln!(
            out,
            "Shown: {shown} of {matches} matches; --limit shows more."
        );
    }
    out
}

/// The path of an artifact.
fn artifact_path(id: &str) -> String {
    format!("{ARTIFACTS_PATH}/{id}")
}

/// The beginning of an artifact id that a person typed, with `art_` before it. Anything else is
/// refused, because in a path it could name something else.
fn id_prefix(typed: &str) -> Result<String, ReadError> {
    let digits = typed.strip_prefix("art_").unwrap_or(typed);
    let fits = (1..=32).contains(&digits.len())
        && digits
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if fits {
        Ok(format!("art_{digits}"))
    } else {
        Err(ReadError::MalformedId)
    }
}

fn percent_encoded(text: &str) -> String {
    const KEPT: &percent_encoding::AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-');
    utf8_percent_encode(text, KEPT).to_string()
}

/// Prints a response body, JSON with indentation and anything else unchanged.
fn print_body(body: &Bytes, json: bool) -> anyhow::Result<()> {
    if json {
        let value: serde_json::Value = parse_answer(body)?;
        return print_json(&value);
    }
    print_bytes(body)
}

/// Sends requests of the artifacts API to the running server, or answers them from the store
/// if no server runs.
struct ArtifactClient<'a> {
    config: &'a Config,
    control: ControlClient,
    /// Whether a request was answered from the store.
    offline: std::sync::atomic::AtomicBool,
}

impl<'a> ArtifactClient<'a> {
    fn new(config: &'a Config) -> Self {
        Self {
            config,
            control: ControlClient::new(config),
            offline: false.into(),
        }
    }

    /// The whole id of the artifact that a person means by the beginning of its id.
    async fn whole_id(&self, typed: &str) -> anyhow::Result<String> {
        let prefix = id_prefix(typed)?;
        if is_artifact_id(&prefix) {
            return Ok(prefix);
        }
        let path = format!("{ARTIFACTS_PATH}?prefix={prefix}&limit={MAX_PAGE}");
        let list: ArtifactList = parse_answer(&self.get(&path).await?)?;
        let ids = list.data.into_iter().map(|artifact| artifact.id);
        complete_id(&prefix, ids)?.with_context(|| {
            format!("no artifact has an id that begins with {typed}; `respondent artifacts list` shows the ids")
        })
    }

    async fn get(&self, path: &str) -> anyhow::Result<Bytes> {
        self.request(&Method::GET, path).await
    }

    async fn request(&self, method: &Method, path: &str) -> anyhow::Result<Bytes> {
        let _progress = Progress::begin("Waiting for the stored tool outputs");
        let response = match self.control.send(method, path, Bytes::new()).await {
            Err(ControlError::NotRunning(_)) => {
                self.offline
                    .store(true, std::sync::atomic::Ordering::Relaxed);
                self.request_offline(method, path).await?
            }
            response => response?,
        };
        ok_body(response)
    }

    /// Answers a request from the store, as the server would.
    async fn request_offline(
        &self,
        method: &Method,
        path: &str,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let request = Request::builder().method(method).uri(path).body(())?;
        let (head, ()) = request.into_parts();
        let owned = open_offline(self.config)?;
        let (head, body) = answer_artifact_request(&owned, head).await.into_parts();
        Ok((head.status, body.collect().await?.to_bytes()))
    }

    /// The line that tells the user that the output comes from the store, if it does.
    fn offline_note(&self) -> Option<String> {
        let offline = self.offline.load(std::sync::atomic::Ordering::Relaxed);
        offline.then(|| {
            format!(
                "No server runs on {}; this is from {}.\n",
                self.control.address(),
                self.config.server.data_dir.display()
            )
        })
    }
}

/// Opens the artifact store for this process. Fails if a server has it open.
pub(super) fn open_offline(config: &Config) -> anyhow::Result<OwnerArtifacts> {
    let settings = &config.artifacts;
    let artifacts = match Store::open_existing(&DataDir::new(&config.server.data_dir)) {
        Ok(Some(store)) => Artifacts::of_store(settings, Arc::new(store)),
        Ok(None) => Artifacts::memory(settings.memory),
        Err(OpenError::InUse(error)) => {
            anyhow::bail!("{error}; name the address that it listens on with --listen")
        }
        Err(OpenError::Unusable(error)) => anyhow::bail!("{error} [{OPEN_FAILED}]"),
    };
    Ok(OwnerArtifacts::local(artifacts, settings.keep_days))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use adapters::plan::output::OutputKind;

    use super::*;

    #[test]
    fn a_malformed_id_never_becomes_a_path() {
        let whole = "art_0123456789abcdef0123456789abcdef";
        for (typed, prefix) in [
            (whole, whole),
            ("art_0f", "art_0f"),
            ("0f", "art_0f"),
            ("0123456789abcdef0123456789abcdef", whole),
        ] {
            assert_eq!(id_prefix(typed).as_deref(), Ok(prefix));
        }
        let long = format!("{whole}0");
        for malformed in [
            "",
            "art_",
            "..",
            "expired",
            "art_1/search",
            "0F",
            "art_\n",
            &long,
        ] {
            assert_eq!(
                id_prefix(malformed),
                Err(ReadError::MalformedId),
                "{malformed}"
            );
        }
    }

    #[test]
    fn the_table_has_size_age_and_location() {
        let row = ArtifactEntry {
            id: format!("art_{:032x}", 1),
            kind: OutputKind::CommandOutput,
            chars: 9,
            lines: 4711,
            bytes: 901_234,
            session: "s\x1b[31m-0123456789".to_owned(),
            call_id: String::new(),
            created: 1000,
            accessed: 1240,
            persistent: true,
        };
        let table = artifact_table(&[row], UNIX_EPOCH + Duration::from_secs(1300));
        let cells = |line: &str| -> Vec<String> {
            let cells = line
                .split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty());
            cells.map(str::to_owned).collect()
        };
        let lines: Vec<_> = table.lines().map(cells).collect();
        assert_eq!(lines[0].len(), lines[1].len());
        assert_eq!(
            lines[1],
            [
                "00000000",
                "command_output",
                "901234",
                "4711",
                "5m",
                "60s",
                "disk",
                r"s\u001b[31m-…"
            ]
        );
    }
}
