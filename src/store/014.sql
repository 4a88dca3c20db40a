-- What was found and read for a stored answer.
CREATE TABLE sources (
    response      INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
    -- Its number in the answer, from 1.
    place         INTEGER NOT NULL,
    -- The call that found it first; of what the request names, none.
    call_id       TEXT,
    url           TEXT    NOT NULL,
    title         TEXT    NOT NULL,
    domain        TEXT    NOT NULL,
    status        TEXT    NOT NULL,
    error         TEXT,
    -- How well it fits, from 0 to 1, if that is known.
    relevance     REAL,
    low_relevance INTEGER NOT NULL,
    -- The beginning of a page that was read, and the characters and the SHA-256 of all of it.
    body          TEXT,
    chars         INTEGER,
    sha256        TEXT,
    -- The artifact that has all of it.
    artifact_id   TEXT,
    -- What the model saw of it, if the request asks for that.
    shown         TEXT,
    PRIMARY KEY (response, place)
) STRICT;

-- The calls of tools of the proxy in a stored answer.
CREATE TABLE tool_runs (
    response    INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
    place       INTEGER NOT NULL,
    -- From 1.
    round       INTEGER NOT NULL,
    call_id     TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    -- Milliseconds since 1970.
    started     INTEGER NOT NULL,
    ended       INTEGER NOT NULL,
    -- Of the result.
    bytes       INTEGER NOT NULL,
    artifact_id TEXT,
    error       TEXT,
    -- The search engines that were asked, as JSON.
    attempts    TEXT,
    PRIMARY KEY (response, place)
) STRICT;
