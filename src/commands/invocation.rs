//! How a person runs this program again for the same server: the command with the flags that find
//! the server, to be shown in messages.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use crate::config::{Config, Flags};

/// The program and the flags with which it was started. Made by each command that names another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Invocation<'a> {
    /// The program as it was typed, such as `respondent` or `./target/release/respondent`.
    pub program: &'a str,
    /// The flags of this process.
    pub flags: &'a Flags,
    /// The configuration that was loaded with them.
    pub config: &'a Config,
    /// The address of the server.
    pub address: SocketAddr,
}

impl Invocation<'_> {
    /// A command that finds this server, such as `respondent --listen 127.0.0.1:9911 codex setup`.
    pub(super) fn command(&self, command: &str) -> String {
        format!("{}{} {command}", shell_word(self.program), self.finding())
    }

    /// The command that starts this server in the background.
    pub(super) fn starting(&self) -> String {
        self.with_all_flags("start")
    }

    /// The command that ends this server and starts it again in the background.
    pub(super) fn restarting(&self) -> String {
        self.with_all_flags("restart")
    }

    fn with_all_flags(&self, command: &str) -> String {
        let mut text = format!("{}{}", shell_word(self.program), self.finding());
        push_path(&mut text, "--data-dir", self.flags.data_dir.as_deref());
        if let Some(log) = &self.flags.log {
            let _ = write!(text, " --log {}", shell_word(log));
        }
        format!("{text} {command}")
    }

    /// The flags that lead to the address and the token of the server.
    fn finding(&self) -> String {
        let mut text = String::new();
        let paths = &self.config.paths;
        let found = paths.file.as_ref().filter(|_| paths.is_found);
        let file = self.flags.config.as_ref().or(found);
        push_path(&mut text, "--config", file.map(AsRef::as_ref));
        if self.flags.listen.is_some() || self.address != self.config.server.listen {
            let _ = write!(text, " --listen {}", self.address);
        }
        push_path(&mut text, "--token-file", self.flags.token_file.as_deref());
        text
    }
}

/// The program as it was typed.
pub(super) fn typed_program() -> String {
    let program = std::env::args().next();
    program.unwrap_or_else(|| "respondent".to_owned())
}

fn push_path(text: &mut String, flag: &str, path: Option<&Path>) {
    if let Some(path) = path {
        let _ = write!(text, " {flag} {}", shell_word(&path.to_string_lossy()));
    }
}

/// A word that a shell takes as it is.
pub(super) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@%+~".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_that_finds_the_server_is_repeated() {
        let flags = Flags {
            config: Some("my config.toml".into()),
            listen: Some("9911".to_owned()),
            token_file: Some("t".into()),
            data_dir: Some("/d".into()),
            log: Some("warn".to_owned()),
        };
        let config = Config::default();
        let mut invocation = Invocation {
            program: "respondent",
            flags: &flags,
            config: &config,
            address: "127.0.0.1:9911".parse().unwrap(),
        };
        let finding = "respondent --config 'my config.toml' --listen 127.0.0.1:9911 --token-file t";
        assert_eq!(
            invocation.command("codex setup"),
            format!("{finding} codex setup")
        );
        assert_eq!(
            invocation.starting(),
            format!("{finding} --data-dir /d --log warn start")
        );
        let flags = Flags::default();
        invocation.flags = &flags;
        invocation.address = config.server.listen;
        assert_eq!(invocation.starting(), "respondent start");
        invocation.address = "127.0.0.1:40000".parse().unwrap();
        assert_eq!(
            invocation.command("status"),
            "respondent --listen 127.0.0.1:40000 status"
        );
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, quoted) in [("a/b.toml", "a/b.toml"), ("", "''"), ("it's", "'it'\\''s'")] {
            assert_eq!(shell_word(word), quoted);
        }
    }
}
