//! What kind of output a text is.

use super::OutputKind;

/// The kind of a text without Codex's header.
pub(super) fn of(body: &str) -> OutputKind {
    match body.trim_start().as_bytes().first() {
        Some(b'{' | b'[') => OutputKind::Json,
        Some(_) | None => OutputKind::CommandOutput,
    }
}
