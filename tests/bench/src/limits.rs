//! The limit of open files, which must allow a thousand open streams.

use std::{fs, os::unix::process::CommandExt, process::Command};

use anyhow::{Context, ensure};

/// Makes sure that `need` files can be open. If the soft limit is lower, this program is started
/// again by a shell that raises it to the hard limit, because safe Rust cannot raise it. The
/// servers inherit the limit. Fails if the hard limit is lower than `need`.
pub(crate) fn ensure_open_files(need: u64) -> anyhow::Result<()> {
    let limits = fs::read_to_string("/proc/self/limits")?;
    let (soft, hard) = open_files(&limits).context("no limit of open files")?;
    if soft >= need {
        return Ok(());
    }
    ensure!(hard >= need, "needs {need} open files, the limit is {hard}");
    let error = Command::new("sh")
        .arg("-c")
        .arg("ulimit -S -n $(ulimit -H -n) && exec \"$0\" \"$@\"")
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .exec();
    Err(error).context("cannot start again with more open files")
}

fn open_files(limits: &str) -> Option<(u64, u64)> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    let mut limits = line.split_whitespace().map(|limit| match limit {
        "unlimited" => Some(u64::MAX),
        limit => limit.parse().ok(),
    });
    Some((limits.next()??, limits.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_are_read() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\n\
            Max processes   1   2   processes\nMax open files   1024   unlimited   files\n";
        assert_eq!(open_files(limits), Some((1024, u64::MAX)));
    }
}
