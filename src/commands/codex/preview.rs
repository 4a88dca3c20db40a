//! What `respondent codex setup --dry-run` prints: every file that the setup would write or delete,
//! with its text or what changes in it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use similar::TextDiff;

use super::{Content, SetupPlan};
use crate::codex::change::FileChange;
use crate::codex::home::CodexHome;
use crate::config::Config;
use crate::log::ByteCount;

/// The models of the catalog that are named; of the others only the number.
const MAX_MODELS: usize = 8;

/// The unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

impl SetupPlan {
    /// The changes in the order in which the setup makes them. Secrets in the texts are redacted.
    pub(super) fn preview(&self, config: &Config, home: &CodexHome) -> String {
        let mut text = "This is a dry run: nothing was written.\n".to_owned();
        if let Some(reason) = &self.no_catalog {
            let _ = write!(
                text,
                "\nNo model catalog would be written: {reason}. Without one Codex reads the models from the server.\n"
            );
        }
        for (change, content) in &self.changes {
            text += &preview_of(change, content, config, home);
        }
        let own_roles = self.about_own_roles();
        if !own_roles.is_empty() {
            text.push('\n');
            text += &own_roles;
        }
        text
    }
}

fn preview_of(change: &FileChange, content: &Content, config: &Config, home: &CodexHome) -> String {
    let path = change.path.display();
    let before = fs::read_to_string(&change.path).ok();
    let (before, after) = match (before, &change.text) {
        (None, None) => return String::new(),
        (Some(_), None) => return format!("\nWould delete {path}.\n"),
        (Some(before), Some(after)) if before == *after => {
            return format!("\nWould leave {path} as it is.\n");
        }
        (before, Some(after)) => (before, after),
    };
    let verb = if before.is_some() { "change" } else { "write" };
    let what = match content {
        Content::Catalog {
            prompt_model,
            models,
        } => {
            let mut named: Vec<String> = models.iter().take(MAX_MODELS).cloned().collect();
            let others = models.len() - named.len();
            if others > 0 {
                named.push(format!("{others} more"));
            }
            format!(
                ", a catalog of {} with the prompt that Codex has for {prompt_model}:\n\n{}",
                ByteCount(after.len() as u64),
                indented(&named.join("\n"))
            )
        }
        Content::ConfigBefore if is_text_of(&home.config(), after) => {
            format!(", a copy of {} as it is now.\n", home.config().display())
        }
        Content::ConfigWritten => {
            format!(", a copy of {} as it would be.\n", home.config().display())
        }
        Content::ConfigBefore | Content::Settings => {
            let shown = match before {
                None => after.clone(),
                Some(before) => difference(&before, after),
            };
            format!(":\n\n{}", indented(&config.redactor().redact(&shown)))
        }
    };
    format!("\nWould {verb} {path}{what}")
}

fn is_text_of(path: &Path, text: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|current| current == text)
}

/// The lines that are taken out and put in, as a unified diff without file names.
fn difference(before: &str, after: &str) -> String {
    TextDiff::from_lines(before, after)
        .unified_diff()
        .context_radius(CONTEXT_LINES)
        .to_string()
}

/// The lines with two spaces in front, so that they differ from the sentences around them.
fn indented(text: &str) -> String {
    let mut indented = String::new();
    for line in text.split_inclusive('\n') {
        let is_empty = line.trim_end_matches(['\r', '\n']).is_empty();
        indented += if is_empty { "" } else { "  " };
        indented += line;
    }
    if !indented.ends_with('\n') {
        indented.push('\n');
    }
    indented
}
