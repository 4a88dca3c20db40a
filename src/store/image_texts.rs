//! Descriptions of images, so that a model that takes none reads the same after a restart.

use super::session_table::SessionTable;

/// The descriptions: the session of a row is the image.
pub(super) static IMAGE_TEXTS: SessionTable = SessionTable {
    name: "image_texts",
    text: "description",
    max_of_session: 1,
    max_rows: 16_384,
    max_bytes: 64 << 20,
};
