-- JSON that several rows may share, by its hash.
CREATE TABLE contents (
    number INTEGER PRIMARY KEY,
    -- SHA-256 of the JSON.
    hash   BLOB    NOT NULL UNIQUE,
    -- How many rows refer to it. Triggers count down and delete it with the last one.
    uses   INTEGER NOT NULL,
    -- Bytes of the JSON.
    bytes  INTEGER NOT NULL,
    -- Bytes of the zstd frame.
    stored INTEGER NOT NULL,
    -- A zstd frame.
    body   BLOB    NOT NULL
) STRICT;

-- So that the sum need not read the frames.
CREATE INDEX contents_by_stored ON contents (stored);

-- A sequence of items that only grows at its end. It begins with the items of its parent before
-- the position where it parted from it; positions count from the beginning of the first ancestor.
CREATE TABLE threads (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    owner   TEXT    NOT NULL,
    -- The session of the turns in it, by which their artifacts are kept.
    session TEXT    NOT NULL,
    parent  INTEGER REFERENCES threads (number),
    -- The first position that is not the parent's.
    begins  INTEGER NOT NULL,
    -- The position after the last item.
    ends    INTEGER NOT NULL,
    -- Bytes that its own items take, without contents.
    bytes   INTEGER NOT NULL
) STRICT;

CREATE INDEX threads_by_parent ON threads (parent, begins) WHERE parent IS NOT NULL;
CREATE INDEX threads_by_session ON threads (owner, session);
-- So that the sum need not read the threads.
CREATE INDEX threads_by_bytes ON threads (owner, bytes);

-- An item as the client or the model wrote it, with an id.
CREATE TABLE items (
    -- The number of the thread times 2^24, plus the position.
    number  INTEGER PRIMARY KEY,
    id      TEXT    NOT NULL,
    -- The JSON of a small item; a large one is a content.
    json    TEXT,
    content INTEGER REFERENCES contents (number)
) STRICT;

CREATE INDEX items_by_id ON items (id);

CREATE TRIGGER items_leave_contents AFTER DELETE ON items WHEN old.content IS NOT NULL BEGIN
    UPDATE contents SET uses = uses - 1 WHERE number = old.content;
    DELETE FROM contents WHERE number = old.content AND uses <= 0;
END;

-- A response without its items, which are in its thread.
CREATE TABLE responses (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT    NOT NULL UNIQUE,
    owner      TEXT    NOT NULL,
    -- NULL until a background response ends.
    thread     INTEGER REFERENCES threads (number),
    -- The position of the first item of its input, of its output, and behind its last item.
    input      INTEGER NOT NULL,
    output     INTEGER NOT NULL,
    ends       INTEGER NOT NULL,
    status     TEXT    NOT NULL,
    background INTEGER NOT NULL,
    -- Its JSON before the items of the output; what follows them, in pieces about this response
    -- and pieces that repeat the request, a line each, which take turns.
    head       TEXT    NOT NULL,
    tail       TEXT    NOT NULL,
    parameters INTEGER NOT NULL REFERENCES contents (number),
    -- Identifies its input, so that a request that repeats the input is stored as a continuation.
    prefix     INTEGER NOT NULL,
    -- Bytes that it takes besides its items and its parameters, with its events.
    bytes      INTEGER NOT NULL,
    -- Seconds since 1970.
    created    INTEGER NOT NULL,
    accessed   INTEGER NOT NULL
) STRICT;

CREATE INDEX responses_by_thread ON responses (thread, ends) WHERE thread IS NOT NULL;
-- The first ones are deleted first.
CREATE INDEX responses_by_access ON responses (accessed, number, bytes);
CREATE INDEX responses_by_owner ON responses (owner, number);
CREATE INDEX responses_by_prefix ON responses (owner, prefix);

CREATE TRIGGER responses_leave_contents AFTER DELETE ON responses BEGIN
    UPDATE contents SET uses = uses - 1 WHERE number = old.parameters;
    DELETE FROM contents WHERE number = old.parameters AND uses <= 0;
END;

-- A conversation of the API. Its thread has no parent.
CREATE TABLE conversations (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    id       TEXT    NOT NULL UNIQUE,
    owner    TEXT    NOT NULL,
    thread   INTEGER NOT NULL UNIQUE REFERENCES threads (number),
    -- A JSON object.
    metadata TEXT    NOT NULL,
    -- Seconds since 1970.
    created  INTEGER NOT NULL
) STRICT;

CREATE INDEX conversations_by_owner ON conversations (owner, number);

-- The run of a background response.
CREATE TABLE jobs (
    response INTEGER PRIMARY KEY REFERENCES responses (number) ON DELETE CASCADE,
    owner    TEXT    NOT NULL,
    -- queued, running or ended.
    state    TEXT    NOT NULL,
    -- The body of the request: its bytes as a little-endian number of 8 bytes, then a zstd frame.
    -- The headers that matter, as JSON. Both are NULL when the run has ended.
    request  BLOB,
    headers  TEXT,
    -- Milliseconds since 1970.
    queued   INTEGER NOT NULL,
    started  INTEGER,
    ended    INTEGER
) STRICT;

CREATE INDEX jobs_by_state ON jobs (state, response);

-- Events of background responses, several in a row.
CREATE TABLE events (
    response  INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
    -- The sequence numbers of the first and the last one.
    first     INTEGER NOT NULL,
    last      INTEGER NOT NULL,
    -- Their JSON, one in a line.
    documents TEXT    NOT NULL,
    PRIMARY KEY (response, first)
) STRICT, WITHOUT ROWID;
