//! Reads PDF files: each in a [`process`] of this program, which is ended with its time.

pub mod process;

use std::path::PathBuf;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::Semaphore;

use super::child::{ChildError, ChildLimits, output_of};
use super::extract::text::file_name;
use super::extract::{MIN_CONTENT_CHARS, PageContent, length};
use super::fetch::FetchedPage;
use super::page::PageError;
use crate::net::memory::{MemoryKind, ProcessMemory};
use process::{MAX_PDF_TEXT, PDF_ARGUMENT};

/// How long a file may take, its time in the queue aside.
const TIME: Duration = Duration::from_secs(15);
/// How many files are read at once: the memory of the processes is not in the budget.
const PROCESSES: usize = 1;

/// Reads PDF files. One for the server, or for a command.
pub(super) struct PdfReader {
    /// This program.
    program: PathBuf,
    memory: ProcessMemory,
    processes: Semaphore,
}

impl PdfReader {
    /// The text takes memory from this budget.
    pub(super) fn new(program: PathBuf, memory: ProcessMemory) -> Self {
        Self {
            program,
            memory,
            processes: Semaphore::new(PROCESSES),
        }
    }

    /// The text of a file.
    pub(super) async fn content(&self, fetched: &FetchedPage) -> Result<PageContent, PageError> {
        let _process = self.processes.acquire().await;
        let mut command = Command::new(&self.program);
        command.arg(PDF_ARGUMENT).env_clear().current_dir("/");
        let limits = ChildLimits {
            time: TIME,
            bytes: 2 * MAX_PDF_TEXT,
        };
        let mut share = self.memory.share(MemoryKind::Requests);
        let output = output_of(command, &fetched.body, limits, &mut share).await;
        let text = output.map_err(|error| {
            tracing::info!("a PDF was not read: {error}");
            match error {
                ChildError::Io(_) => PageError::Hostile("its parser cannot be started"),
                ChildError::Failed => {
                    PageError::Hostile("it is broken, needs a password, or takes too much memory")
                }
                ChildError::Timeout => PageError::Hostile("it takes too long"),
                ChildError::TooLarge => PageError::Hostile("its text multiplies"),
                ChildError::NoMemory => PageError::NoMemory,
            }
        })?;
        let text = String::from_utf8(text).map_err(|_| PageError::NoText)?;
        if length(&text) < MIN_CONTENT_CHARS {
            return Err(PageError::NoText);
        }
        Ok(PageContent {
            title: file_name(&fetched.url),
            canonical: None,
            published: None,
            markdown: text,
        })
    }
}
