//! Tool outputs as text. [`text()`] decodes the output of an item; the crate `excerpts` measures
//! and shortens it.

mod artifact_tools;
mod text;

pub use artifact_tools::{READ_TOOL, SEARCH_TOOL, reads_artifact};

pub use excerpts::{
    CodexHeader, ExcerptSource, ExcerptStyle, MAX_EXCERPT_CHARS, OutputKind, OutputMeasure,
    SHORTENED_MARK, Wanted, artifact_id, first_page, is_read_back, measure, names_artifact, notice,
    read_back_heading, read_hint, without_cut_line,
};
pub use text::{max_text_len, text};
