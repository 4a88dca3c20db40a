//! Tool outputs as text: their kind and size, and the shorter texts that are sent instead
//! of them.
//!
//! [`text()`] decodes the output of an item, [`measure()`] classifies and measures it, and
//! [`ExcerptSource`], [`notice`] and [`first_page`] make the shorter texts. All of them depend
//! on their arguments alone, so that the bytes of a history never change.

mod classify;
mod codex_header;
mod elements;
mod evidence;
mod excerpt;
mod markup;
mod measure;
mod paths;
mod places;
mod read_back;
mod text;

pub use crate::output_kind::OutputKind;
pub use codex_header::CodexHeader;
pub use evidence::Wanted;
pub use excerpt::{
    ExcerptSource, ExcerptStyle, MAX_EXCERPT_CHARS, SHORTENED_MARK, notice, read_hint,
};
pub(super) use measure::measure_until;
pub use measure::{OutputMeasure, artifact_id, measure};
pub use read_back::{first_page, is_read_back, read_back_heading};
pub use text::{max_text_len, text};
