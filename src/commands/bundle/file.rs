//! Writes the file of `respondent bundle create`.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;

/// Writes a new file that only its owner can read. Fails if the path exists; a file that
/// cannot be written completely is removed.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => anyhow::bail!(
            "{} already exists and was left as it is; name another file with --output",
            path.display()
        ),
        Err(error) => {
            return Err(error).with_context(|| format!("{} cannot be written", path.display()));
        }
    };
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .inspect_err(|_| {
            let _ = fs::remove_file(path);
        })
        .with_context(|| format!("{} cannot be written", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_private_and_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar.zst");
        write_new(&path, b"first").unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = write_new(&path, b"second").unwrap_err();
        assert!(error.to_string().contains("--output"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"first");
    }

    // Another user could place a link in a shared directory.
    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (link, target) = (dir.path().join("link"), dir.path().join("target"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write_new(&link, b"x").unwrap_err();
        assert!(!target.exists());
    }
}
