//! Compaction: replaces the beginning of a long history by a summary that any model can
//! continue from.
//!
//! `apply_purpose` turns a client's request into a request for a summary, or into one
//! whose history begins with a summary ([`Purpose`](crate::purpose::Purpose)). Whether a
//! model's answer is a summary that one can continue from, [`is_usable_summary`] judges;
//! where no model can write one, [`extract()`] makes a text from the history itself.
//! [`listable_artifacts`] and [`artifact_lines`] choose the tool outputs that stay
//! readable. The result travels as a
//! [`CompactionBlob`](crate::compaction_blob::CompactionBlob).

mod activity;
mod apply;
mod artifact_list;
mod extract;
mod prompt;
#[cfg(test)]
mod tests;
mod usable_summary;

pub(crate) use apply::{apply_purpose, replace_covered_history};
pub use apply::{count_retained_items, repeated_items};
pub use artifact_list::{ListedArtifact, artifact_lines, listable_artifacts};
pub use extract::extract;
pub use prompt::SUMMARY_PROMPT;
pub use usable_summary::{is_usable_summary, strip_wrapping};
