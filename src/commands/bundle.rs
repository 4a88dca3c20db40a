//! `respondent bundle`: turns in a file.

mod fetch;
mod file;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;

use super::say;
use crate::cli::{DIFFERENT, SAME};
use crate::config::Config;
use crate::diagnostics::bundle::{self, Bundle, Scope, Turn};
use crate::diagnostics::capture::selection::Span;
use crate::diagnostics::capture::{Selection, Wanted};

pub use fetch::listing;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct Unusable {
    /// The file.
    pub file: PathBuf,
    /// Why, and what to do.
    pub why: String,
}

impl Unusable {
    /// With this reason.
    pub fn new(file: &Path, why: &impl ToString) -> Self {
        Self {
            file: file.to_owned(),
            why: why.to_string(),
        }
    }
}

/// `respondent bundle create`: writes the wanted turns into a new file, and tells
/// what is in it.
pub async fn create(config: &Config, wanted: &Wanted, output: Option<&Path>) -> anyhow::Result<()> {
    let to_stdout = output == Some(Path::new("-"));
    if to_stdout && std::io::stdout().is_terminal() {
        anyhow::bail!(
            "a bundle is no text for a terminal: name a file with --output, or send standard output to one"
        );
    }
    let fetched = fetch::fetch(config, wanted).await?;
    // Read before it is written: nobody reports a turn with a file that is none.
    let bundle =
        Bundle::from_bytes(&fetched.bytes).context("what was to be written is no bundle")?;
    if to_stdout {
        let mut out = std::io::stdout().lock();
        out.write_all(&fetched.bytes)?;
        out.flush()?;
        let size = file::size(fetched.bytes.len());
        let told = told(&bundle, wanted, "standard output", &size, &fetched.remarks);
        std::io::stderr().write_all(told.as_bytes())?;
        return Ok(());
    }
    let path = match output {
        Some(path) => path.to_owned(),
        None => file_name(&wanted.select, &bundle.turns).into(),
    };
    file::write_new(&path, &fetched.bytes)?;
    let size = file::size(fetched.bytes.len());
    let path = path.display().to_string();
    say(&told(&bundle, wanted, &path, &size, &fetched.remarks))
}

/// What a user reads about the file that was written.
fn told(bundle: &Bundle, wanted: &Wanted, path: &str, size: &str, remarks: &[String]) -> String {
    let turns = match bundle.turns.len() {
        1 => "1 turn".to_owned(),
        count => format!("{count} turns"),
    };
    let mut lines = remarks.to_vec();
    lines.push(format!("Wrote {path}: {turns}, {size}. Look at it with `respondent bundle show`, run it again with `respondent replay`."));
    let hashed = match (bundle.images, bundle.encrypted) {
        (true, true) => "images and encrypted contents are in it too",
        (true, false) => "images are in it too, encrypted contents only by hash",
        (false, true) => "encrypted contents are in it too, images only by hash",
        (false, false) => "images and encrypted contents are there only by hash",
    };
    lines.push(format!("It holds prompts, tool outputs and answers as they were; keys and tokens are taken out; {hashed}."));
    let short = |asked: bool, there: bool| asked && !there;
    if short(wanted.images, bundle.images) || short(wanted.encrypted, bundle.encrypted) {
        lines.push("Not all that was to be kept whole was still there: turns on disk are redacted already.".to_owned());
    }
    lines.push(String::new());
    lines.join("\n")
}

/// `respondent-<request id>.tar.zst`, or named for the time that it covers.
fn file_name(select: &Selection, turns: &[Turn]) -> String {
    let name = match (select, turns) {
        (Selection::Since(time), _) => format!("since-{}", Span(*time)),
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

/// `respondent bundle list`.
pub async fn list(config: &Config, json: bool) -> anyhow::Result<()> {
    let (listing, remark) = listing(config).await?;
    if json {
        return say(&(serde_json::to_string_pretty(&listing)? + "\n"));
    }
    if let Some(remark) = remark {
        say(&(remark + "\n"))?;
    }
    if listing.turns.is_empty() {
        say("No turn is kept.\n")
    } else {
        say(&listing.table(SystemTime::now()))
    }
}

/// Reads a bundle.
pub fn read(file: &Path) -> Result<Bundle, Unusable> {
    Bundle::read(file).map_err(|error| Unusable::new(file, &error))
}

/// The turn with this number, from 1.
pub fn turn<'a>(file: &Path, bundle: &'a Bundle, number: usize) -> Result<&'a Turn, Unusable> {
    let index = number.checked_sub(1);
    let turn = index.and_then(|index| bundle.turns.get(index));
    turn.ok_or_else(|| {
        let why = format!("there is no turn {number}; it holds {}", bundle.turns.len());
        Unusable::new(file, &why)
    })
}

/// `respondent bundle show`.
pub fn show(file: &Path) -> anyhow::Result<()> {
    say(&bundle::show(&read(file)?.turns))
}

/// `respondent bundle diff`: the exit code.
pub fn diff(a: &Path, b: &Path) -> anyhow::Result<u8> {
    let (a, b) = (read(a)?.turns, read(b)?.turns);
    say(&bundle::diff(&a, &b))?;
    let same = a.len() == b.len()
        && a.iter()
            .zip(&b)
            .all(|(a, b)| bundle::compare(a, b, Scope::Diff).is_empty());
    Ok(if same { SAME } else { DIFFERENT })
}
