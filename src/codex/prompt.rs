//! The base instructions that a model works under in Codex.
//!
//! Codex demands them of every catalog entry, and they replace its own.

use std::borrow::Cow;
use std::io;
use std::path::Path;

/// Our prompt for coding agents.
pub const PROMPT: &str = include_str!("prompt.md");

/// The same in a fifth of the size, for entries that would not fit otherwise.
pub const SHORT: &str = include_str!("prompt-short.md");

/// The prompt in `file`, or ours without one.
///
/// Fails when the file cannot be read, is not UTF-8 or is blank: a model
/// without instructions is never what was meant.
pub fn load(file: Option<&Path>) -> io::Result<Cow<'static, str>> {
    let Some(file) = file else {
        return Ok(Cow::Borrowed(PROMPT));
    };
    let text = std::fs::read_to_string(file)?;
    if text.trim().is_empty() {
        let blank = format!("{} is blank", file.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, blank));
    }
    Ok(Cow::Owned(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_compact_and_its_example_is_a_patch() {
        assert!((4_000..8_192).contains(&PROMPT.len()), "{}", PROMPT.len());
        assert!(SHORT.len() < 1_500, "{}", SHORT.len());
        let example = PROMPT.split("```\n").nth(1).unwrap();
        assert!(example.starts_with("*** Begin Patch\n") && example.ends_with("*** End Patch\n"));
        assert_eq!(adapters::responses::patch::repair(example), None);
    }

    #[test]
    fn a_file_replaces_ours() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("prompt.md");
        std::fs::write(&file, "Be brief.").unwrap();
        assert_eq!(load(Some(&file)).unwrap(), "Be brief.");
        std::fs::write(&file, " \n").unwrap();
        assert_eq!(
            load(Some(&file)).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        assert_eq!(load(None).unwrap(), PROMPT);
    }
}
