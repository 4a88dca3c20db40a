//! Descriptions of images, so that a model that takes none reads the same after a restart.

use super::Store;
use super::error::StoreError;
use super::session_table::{SessionRow, SessionTable};
use crate::net::memory::CountedValue;

/// The descriptions: the session of a row is the image.
pub(super) static IMAGE_TEXTS: SessionTable = SessionTable {
    name: "image_texts",
    text: "description",
    max_of_session: 1,
    max_rows: 16_384,
    max_bytes: 64 << 20,
};

impl Store {
    /// Stores the description of an image, which is the session of the row. False if the queue is
    /// full. Never blocks.
    pub fn note_image_text(&self, description: SessionRow) -> bool {
        self.try_change(move |connection| IMAGE_TEXTS.put(connection, &description))
    }

    /// The descriptions of these images, as far as there are any, with the images.
    pub async fn image_texts(
        &self,
        owner: &str,
        images: Vec<String>,
    ) -> Result<CountedValue<Vec<(String, String)>>, StoreError> {
        self.run_reader(owner, move |reading, owner| {
            let mut found = Vec::new();
            for image in &images {
                let text = IMAGE_TEXTS.of_session(reading, owner, image)?.pop();
                found.extend(text.map(|text| (image.clone(), text)));
            }
            Ok(found)
        })
        .await
    }
}
