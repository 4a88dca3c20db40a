-- Descriptions of images, for models that take none: `session` is a hash of the image and the model
-- that has described it.
CREATE TABLE image_texts (
    number INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    session TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    accessed INTEGER NOT NULL,
    description TEXT NOT NULL
) STRICT;
CREATE INDEX image_texts_by_session ON image_texts (owner, session, number, bytes);
CREATE INDEX image_texts_by_access ON image_texts (accessed);
