//! `respondent bundle`: writes recorded turns to a file, and shows and compares such files.

mod fetch;
mod file;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;

use super::{print_error, print_json, print_text};
use crate::commands::cli::{EXIT_DIFFERENT, EXIT_OK};
use crate::commands::progress::Progress;
use crate::config::Config;
use crate::diagnostics::bundle::{self, Bundle, BundleTurn, Scope};
use crate::diagnostics::listing::age;
use crate::diagnostics::selection::{BundleQuery, ListedTurn, Selection, TimeSpan};
use crate::log::{ByteCount, SafeText, short_id};

pub use fetch::listing;

/// A bundle file that cannot be used. It has its own exit code.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct UnusableFile {
    /// The path of the file.
    pub file: PathBuf,
    /// The reason, and what to do.
    pub why: String,
}

impl UnusableFile {
    /// An error about `file` with the text of `why`.
    pub fn new(file: &Path, why: &impl ToString) -> Self {
        Self {
            file: file.to_owned(),
            why: why.to_string(),
        }
    }
}

/// `respondent bundle create`: writes the wanted turns to a new file and prints a summary of
/// it. `output` is a path, `-` for standard output, or `None` for a name made from the turns.
pub async fn create(
    config: &Config,
    wanted: &BundleQuery,
    output: Option<&Path>,
) -> anyhow::Result<()> {
    let to_stdout = output == Some(Path::new("-"));
    if to_stdout && std::io::stdout().is_terminal() {
        anyhow::bail!(
            "a bundle is not text: name a file with --output, or redirect standard output to one"
        );
    }
    let progress = Progress::begin("Collecting turns");
    let fetched = fetch::fetch(config, wanted).await?;
    // Parse the bundle before writing it, so that no user reports a turn with a broken file.
    let bundle =
        Bundle::from_bytes(&fetched.bytes).context("what was to be written is not a bundle")?;
    drop(progress);
    if to_stdout {
        let mut out = std::io::stdout().lock();
        out.write_all(&fetched.bytes)?;
        out.flush()?;
        let size = ByteCount(fetched.bytes.len() as u64).to_string();
        let summary = summary(&bundle, wanted, "standard output", &size, &fetched.notes);
        print_error(&summary);
        return Ok(());
    }
    let path = match output {
        Some(path) => path.to_owned(),
        None => file_name(&wanted.selection, &bundle.turns).into(),
    };
    file::write_new(&path, &fetched.bytes)?;
    let size = ByteCount(fetched.bytes.len() as u64).to_string();
    let path = path.display().to_string();
    print_text(&summary(&bundle, wanted, &path, &size, &fetched.notes))
}

/// The text for the user about the file that was written.
fn summary(
    bundle: &Bundle,
    wanted: &BundleQuery,
    path: &str,
    size: &str,
    notes: &[String],
) -> String {
    let turns = match bundle.turns.len() {
        1 => "1 turn".to_owned(),
        count => format!("{count} turns"),
    };
    let mut lines = notes.to_vec();
    if let (Selection::Failed | Selection::Last, [turn]) = (&wanted.selection, &*bundle.turns) {
        lines.push(chosen(
            &ListedTurn::from_bundle_turn(turn),
            SystemTime::now(),
        ));
    }
    lines.push(format!("Wrote {path}: {turns}, {size}. Look at it with `respondent bundle show`, run it again with `respondent replay`."));
    let hashed = match (bundle.images, bundle.encrypted) {
        (true, true) => "images and encrypted contents are included",
        (true, false) => "images are included, encrypted contents are replaced by their hashes",
        (false, true) => "encrypted contents are included, images are replaced by their hashes",
        (false, false) => "images and encrypted contents are replaced by their hashes",
    };
    lines.push(format!("It holds prompts, tool outputs and answers as they were; keys and tokens are taken out; {hashed}."));
    let missing = |wanted: bool, included: bool| wanted && !included;
    if missing(wanted.images, bundle.images) || missing(wanted.encrypted, bundle.encrypted) {
        lines.push(
            "Not all images and encrypted contents could be included: turns on disk have already been redacted."
                .to_owned(),
        );
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Which turn was taken, for a user who has named none.
fn chosen(turn: &ListedTurn, now: SystemTime) -> String {
    let what = match (turn.failed, turn.agent) {
        (true, true) => "the newest turn that failed",
        (true, false) => "a request that was refused, because no turn of an agent has failed",
        (false, _) => "the newest turn",
    };
    let route = turn.route.as_deref().unwrap_or("no provider");
    format!(
        "This is {what}: {} ago, {}, request {}.",
        age(turn.began_ms, now),
        SafeText::new(route),
        SafeText::new(&short_id(&turn.request_id))
    )
}

/// `respondent-<request id>.tar.zst`; for several turns, a name with the selected time span.
fn file_name(select: &Selection, turns: &[BundleTurn]) -> String {
    let name = match (select, turns) {
        (Selection::Since(time), _) => format!("since-{}", TimeSpan(*time)),
        (_, [turn]) => turn
            .request_id
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
            .take(64)
            .collect(),
        (_, _) => "turns".to_owned(),
    };
    format!("respondent-{name}.tar.zst")
}

/// `respondent bundle list`: prints the newest recorded turns, at most `limit`, as a table or as
/// JSON.
pub async fn list(config: &Config, limit: usize, json: bool) -> anyhow::Result<()> {
    let (mut listing, note) = listing(config).await?;
    let all = listing.turns.len();
    listing.turns.truncate(limit);
    if json {
        return print_json(&listing);
    }
    if let Some(note) = note {
        print_text(&(note + "\n"))?;
    }
    if listing.turns.is_empty() {
        print_text("No turn is kept.\n")
    } else {
        let mut text = listing.table(SystemTime::now());
        if all > limit {
            let older = match all - limit {
                1 => "1 older turn is not shown: --all shows it.\n".to_owned(),
                more => format!("{more} older turns are not shown: --all shows them.\n"),
            };
            text.push_str(&older);
        }
        print_text(&text)
    }
}

/// Reads and checks a bundle file.
pub fn read(file: &Path) -> Result<Bundle, UnusableFile> {
    Bundle::read(file).map_err(|error| UnusableFile::new(file, &error))
}

/// The turn with the given number, counted from 1.
pub fn turn<'a>(
    file: &Path,
    bundle: &'a Bundle,
    number: usize,
) -> Result<&'a BundleTurn, UnusableFile> {
    let index = number.checked_sub(1);
    let turn = index.and_then(|index| bundle.turns.get(index));
    turn.ok_or_else(|| {
        let why = format!("there is no turn {number}; it holds {}", bundle.turns.len());
        UnusableFile::new(file, &why)
    })
}

/// `respondent bundle show`: prints the turns of a bundle.
pub fn show(file: &Path) -> anyhow::Result<()> {
    print_text(&bundle::show(&read(file)?.turns, file))
}

/// `respondent bundle diff`: prints where the turns of two bundles differ. Returns the exit
/// code.
pub fn diff(a: &Path, b: &Path) -> anyhow::Result<u8> {
    let (a, b) = (read(a)?.turns, read(b)?.turns);
    print_text(&bundle::diff(&a, &b))?;
    let same = a.len() == b.len()
        && a.iter()
            .zip(&b)
            .all(|(a, b)| bundle::compare(a, b, Scope::Diff).is_empty());
    Ok(if same { EXIT_OK } else { EXIT_DIFFERENT })
}
