//! `respondent logs`: the end of the log file of a server.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use tokio::time::sleep;

use super::log_file;
use super::process_file::{ProcessFile, ServiceManager};
use crate::commands::print_bytes;
use crate::commands::status::of_server;
use crate::config::Config;
use crate::control::ControlClient;
use crate::log;

/// How much of a file is read at once.
const CHUNK: usize = 64 << 10;

/// How often the file is checked for new lines.
const INTERVAL: Duration = Duration::from_millis(250);

/// Prints the last lines, and with `follow` what is logged from then on, until the process ends.
pub async fn run(config: &Config, lines: usize, follow: bool) -> anyhow::Result<()> {
    let path = file_of_server(config).await?;
    let opened = File::open(&path);
    if opened
        .as_ref()
        .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    {
        anyhow::bail!(
            "there is no log {}; a server that `respondent start` starts writes one",
            path.display()
        );
    }
    let mut file = opened.with_context(|| format!("{} cannot be read", path.display()))?;
    seek_to_last(&mut file, lines)?;
    loop {
        print_rest(&mut file)?;
        if !follow {
            return Ok(());
        }
        sleep(INTERVAL).await;
        if file.metadata()?.len() < file.stream_position()? {
            // Somebody has emptied it.
            file.seek(SeekFrom::Start(0))?;
        }
        if path.exists() && !log::is_at(&file, &path) {
            print_rest(&mut file)?;
            file = File::open(&path)?;
        }
    }
}

/// The log file of the running server, or else that of the last one in the background.
async fn file_of_server(config: &Config) -> anyhow::Result<PathBuf> {
    let control = ControlClient::new(config);
    // A server that says nothing to this shell may have a log all the same.
    let report = of_server(&control).await.ok().flatten();
    let Some(server) = report.and_then(|report| report.server) else {
        return Ok(log_file(config));
    };
    if let Some(file) = server.log_file {
        return Ok(file);
    }
    let found = ProcessFile::find(&config.server.data_dir).ok().flatten();
    let where_ = match found.and_then(|found| found.server.manager) {
        Some(ServiceManager::Systemd) => "the journal: journalctl --user -u respondent -f",
        Some(ServiceManager::Launchd) => "~/Library/Logs/respondent.log",
        None => "the terminal or the file to which its standard error goes",
    };
    anyhow::bail!("the server on {} logs to {where_}", control.address());
}

/// Goes to the beginning of the last lines. Reads no more of the file than these.
fn seek_to_last(file: &mut File, lines: usize) -> io::Result<()> {
    let mut position = file.seek(SeekFrom::End(0))?;
    let mut buffer = vec![0; CHUNK];
    // The end of the last line ends none before it.
    let mut ends = 0;
    while position > 0 {
        let length = position.min(CHUNK as u64);
        position -= length;
        file.seek(SeekFrom::Start(position))?;
        let chunk = buffer.get_mut(..usize::try_from(length).unwrap_or(0));
        let chunk = chunk.unwrap_or_default();
        file.read_exact(chunk)?;
        for (at, _) in chunk
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, byte)| **byte == b'\n')
        {
            if ends == lines {
                file.seek(SeekFrom::Start(position + at as u64 + 1))?;
                return Ok(());
            }
            ends += 1;
        }
    }
    file.seek(SeekFrom::Start(0)).map(|_| ())
}

/// Prints what is left of the file.
fn print_rest(file: &mut File) -> anyhow::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = file.read(&mut buffer)?;
        let Some(read) = buffer.get(..length).filter(|read| !read.is_empty()) else {
            return Ok(());
        };
        // A character that is not whole yet is read again with its end.
        let whole = read.iter().rposition(|byte| *byte == b'\n');
        let whole = whole.map_or(read.len(), |end| end + 1);
        print_bytes(read.get(..whole).unwrap_or(read))?;
        let again = i64::try_from(length - whole).unwrap_or(0);
        file.seek(SeekFrom::Current(-again))?;
        if length < CHUNK {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_lines_are_found_from_the_end() {
        let long = "x".repeat(CHUNK);
        let text = format!("one\n{long}\ntwo\nthree\n");
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        for (lines, expected) in [
            (0, ""),
            (1, "three\n"),
            (2, "two\nthree\n"),
            (4, &text),
            (9, &text),
        ] {
            seek_to_last(&mut file, lines).unwrap();
            let mut rest = String::new();
            file.read_to_string(&mut rest).unwrap();
            assert_eq!(rest, expected, "{lines}");
        }
    }
}
