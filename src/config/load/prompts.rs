//! Loads the prompt templates of the folder that `[prompts]` names: `<id>/<version>.toml`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use adapters::responses::prompt_templates::{
    PromptTemplate, PromptTemplates, is_prompt_id, prompt_version,
};

use super::ConfigLoader;
use crate::config::settings::PromptConfig;
use crate::config::toml_file::{Parsed, TomlFile};

/// The most files of templates.
const MAX_FILES: usize = 500;
/// The largest file of a template.
const MAX_FILE_BYTES: u64 = 256 << 10;
/// The most bytes of all files together.
const MAX_BYTES: u64 = 8 << 20;

impl ConfigLoader<'_> {
    /// Adds the prompt templates. Those of a file that was found are refused already, and none of
    /// its folders is read.
    pub(super) fn prompts(&mut self, main: &TomlFile, config: &PromptConfig) {
        let Some(folder) = config.folder.as_deref() else {
            return;
        };
        if self.config.paths.is_found {
            return;
        }
        let folder = self.resolve(folder);
        let files = match template_files(&folder) {
            Ok(files) => files,
            Err(why) => return self.fail(main.error(&["prompts", "folder"], why)),
        };
        self.config.source_files.push(folder);
        let mut templates = PromptTemplates::default();
        for file in files {
            match file {
                PromptEntry::Folder(path) => self.config.source_files.push(path),
                PromptEntry::Template { id, version, path } => {
                    if let Some(template) = self.prompt(&path) {
                        templates.add(&id, version, template);
                    }
                }
            }
        }
        self.config.prompts = Arc::new(templates);
    }

    fn prompt(&mut self, path: &Path) -> Option<PromptTemplate> {
        let source = match TomlFile::read(path) {
            Ok(source) => source,
            Err(error) => {
                self.fail(error);
                return None;
            }
        };
        self.add_source(&source);
        let Parsed { value, errors, .. } = source.parse::<serde_json::Value>();
        let is_whole = errors.is_empty();
        for error in errors {
            self.fail(error);
        }
        match PromptTemplate::new(value.filter(|_| is_whole)?) {
            Ok(template) => Some(template),
            Err(why) => {
                self.fail(source.error(&[], why));
                None
            }
        }
    }
}

/// What a folder of templates holds.
enum PromptEntry {
    /// The folder of the versions of one template.
    Folder(PathBuf),
    /// A version of a template.
    Template {
        id: String,
        version: u32,
        path: PathBuf,
    },
}

/// The folders and the files of templates, in the order of their names. Hidden ones are left out.
/// An error says what is wrong with the folder.
fn template_files(folder: &Path) -> Result<Vec<PromptEntry>, String> {
    let unreadable =
        |path: &Path, error: io::Error| format!("cannot read {}: {error}", path.display());
    let mut found = Vec::new();
    let (mut files, mut bytes) = (0, 0);
    for (id, path) in visible(folder).map_err(|error| unreadable(folder, error))? {
        if !is_prompt_id(&id) || !path.is_dir() {
            return Err(format!(
                "{} is no folder of a prompt: the versions of a prompt are in a folder with its id as its name, such as {}/1.toml; an id has 1 to 64 letters, digits, `-` and `_`",
                path.display(),
                folder.join("greeting").display()
            ));
        }
        let versions = visible(&path).map_err(|error| unreadable(&path, error))?;
        found.push(PromptEntry::Folder(path));
        for (name, path) in versions {
            let version = name.strip_suffix(".toml").and_then(prompt_version);
            let Some(version) = version.filter(|_| path.is_file()) else {
                return Err(format!(
                    "{} is no version of a prompt: it is a file with a number as its name, such as 1.toml",
                    path.display()
                ));
            };
            let size = path
                .metadata()
                .map_err(|error| unreadable(&path, error))?
                .len();
            files += 1;
            bytes += size;
            if size > MAX_FILE_BYTES || files > MAX_FILES || bytes > MAX_BYTES {
                return Err(format!(
                    "{} is too much: there may be {MAX_FILES} files of at most {} KiB, and of {} MiB in all",
                    path.display(),
                    MAX_FILE_BYTES >> 10,
                    MAX_BYTES >> 20
                ));
            }
            let id = id.clone();
            found.push(PromptEntry::Template { id, version, path });
        }
    }
    Ok(found)
}

/// The names and paths in a folder, sorted, without hidden ones. No more than are needed to see
/// that there are too many.
pub(super) fn visible(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with('.') {
            found.push((name.into_owned(), path.clone()));
        }
        if found.len() > MAX_FILES {
            break;
        }
    }
    found.sort();
    Ok(found)
}
