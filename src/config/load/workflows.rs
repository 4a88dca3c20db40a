//! Loads the workflows of the program, and those of the folder that `[workflows]` names:
//! `<id>.toml`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use adapters::workflow::{WorkflowCatalog, WorkflowDefinition};

use super::ConfigLoader;
use super::prompts::visible;
use crate::config::settings::WorkflowConfig;
use crate::config::toml_file::{Parsed, TomlFile};

/// The workflows that come with the program.
const BUILT_IN: [(&str, &str); 1] = [(
    "wf_deep_research",
    include_str!("../workflows/wf_deep_research.toml"),
)];
/// The largest file of a workflow.
const MAX_FILE_BYTES: u64 = 256 << 10;

impl ConfigLoader<'_> {
    /// Adds the workflows. A folder that a found file names is refused already, and not read. A
    /// workflow of the folder takes the place of one of the program.
    pub(super) fn workflows(&mut self, main: &TomlFile, config: &WorkflowConfig) {
        let mut catalog = WorkflowCatalog::default();
        for (id, text) in BUILT_IN {
            let source = TomlFile::built_in(id, text);
            if let Some(definition) = self.workflow(&source) {
                catalog.add(id, definition);
            }
        }
        let folder = config
            .folder
            .as_deref()
            .filter(|_| !self.config.paths.is_found);
        if let Some(folder) = folder {
            let folder = self.resolve(folder);
            match workflow_files(&folder) {
                Err(why) => self.fail(main.error(&["workflows", "folder"], why)),
                Ok(files) => {
                    self.config.source_files.push(folder);
                    for (id, path) in files {
                        if let Some(definition) = self.workflow_file(&path) {
                            catalog.add(&id, definition);
                        }
                    }
                }
            }
        }
        self.config.workflows = Arc::new(catalog);
    }

    fn workflow_file(&mut self, path: &Path) -> Option<WorkflowDefinition> {
        match TomlFile::read(path) {
            Ok(source) => {
                self.add_source(&source);
                self.workflow(&source)
            }
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    fn workflow(&mut self, source: &TomlFile) -> Option<WorkflowDefinition> {
        let Parsed { value, errors, .. } = source.parse::<serde_json::Value>();
        let is_whole = errors.is_empty();
        for error in errors {
            self.fail(error);
        }
        match WorkflowDefinition::new(value.filter(|_| is_whole)?) {
            Ok(definition) => Some(definition),
            Err(why) => {
                self.fail(source.error(&[], why));
                None
            }
        }
    }
}

/// The ids and files of the workflows in a folder, in the order of their names. Hidden ones are
/// left out. An error says what is wrong with the folder.
fn workflow_files(folder: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let unreadable = |error| format!("cannot read {}: {error}", folder.display());
    let mut found = Vec::new();
    for (name, path) in visible(folder).map_err(unreadable)? {
        let id = name
            .strip_suffix(".toml")
            .filter(|id| WorkflowCatalog::is_id(id));
        let Some(id) = id.filter(|_| path.is_file()) else {
            return Err(format!(
                "{} is not a workflow: it is a file with the id of the workflow as its name, such as wf_review.toml; an id begins with `wf_` and has at most 64 letters, digits, `-` and `_`",
                path.display()
            ));
        };
        let size = path.metadata().map_err(unreadable)?.len();
        if size > MAX_FILE_BYTES {
            return Err(format!(
                "{} is too large: the file of a workflow has at most {} KiB",
                path.display(),
                MAX_FILE_BYTES >> 10
            ));
        }
        found.push((id.to_owned(), path));
    }
    Ok(found)
}
