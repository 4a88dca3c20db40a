-- A text, whoever keeps it. The id is made of its hash.
CREATE TABLE blobs (
    number INTEGER PRIMARY KEY,
    id     TEXT    NOT NULL UNIQUE,
    chars  INTEGER NOT NULL,
    lines  INTEGER NOT NULL,
    bytes  INTEGER NOT NULL,
    -- Bytes of its chunks as they are stored.
    stored INTEGER NOT NULL
) STRICT;

-- A piece of a text that begins and ends between characters, a zstd frame of its
-- own.
CREATE TABLE chunks (
    blob  INTEGER NOT NULL REFERENCES blobs (number) ON DELETE CASCADE,
    -- Bytes of the text before it.
    start INTEGER NOT NULL,
    -- Line ends in the text before it.
    lines INTEGER NOT NULL,
    -- Bytes of it.
    bytes INTEGER NOT NULL,
    body  BLOB    NOT NULL,
    PRIMARY KEY (blob, start)
) STRICT;

-- Whose text it is. A higher number came later.
CREATE TABLE refs (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    blob     INTEGER NOT NULL REFERENCES blobs (number),
    owner    TEXT    NOT NULL,
    session  TEXT    NOT NULL,
    call     TEXT    NOT NULL,
    kind     TEXT    NOT NULL,
    -- Seconds since 1970.
    created  INTEGER NOT NULL,
    accessed INTEGER NOT NULL,
    UNIQUE (owner, session, call, blob)
) STRICT;

CREATE INDEX refs_by_blob ON refs (blob, owner);
CREATE INDEX refs_by_access ON refs (accessed);
