-- Sessions whose outputs are sent whole, because shortening them cost more than it saved.
CREATE TABLE whole_sessions (
    owner    TEXT    NOT NULL,
    session  TEXT    NOT NULL,
    -- From where on, as JSON.
    point    TEXT    NOT NULL,
    -- Seconds since 1970.
    accessed INTEGER NOT NULL,
    PRIMARY KEY (owner, session)
) STRICT, WITHOUT ROWID;

CREATE INDEX whole_sessions_by_access ON whole_sessions (accessed);
