#![doc = include_str!("../README.md")]
//!
//! # The code
//!
//! [`measure()`] classifies and measures a text, and [`ExcerptSource`], [`notice`] and
//! [`first_page`] make the shorter texts. [`fitness_of_parts`] tells which parts of a text fit a
//! request. All of them depend on their arguments alone.

mod classify;
mod codex_header;
mod elements;
mod evidence;
mod excerpt;
pub mod html;
mod markup;
mod measure;
mod output_kind;
mod paths;
mod places;
mod read_back;
mod retention;

pub use codex_header::CodexHeader;
pub use evidence::{Wanted, fitness_of_parts};
pub use excerpt::{
    ExcerptSource, ExcerptStyle, MAX_EXCERPT_CHARS, SHORTENED_MARK, notice, read_hint,
};
pub use measure::{OutputMeasure, artifact_id, measure, measure_until};
pub use output_kind::OutputKind;
pub use read_back::{
    first_page, is_read_back, names_artifact, read_back_heading, without_cut_line,
};
pub use retention::Retention;
