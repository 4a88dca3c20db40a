-- The parts of the newest prompt of a history, 16 bytes each. Earlier prompts are its beginnings.
CREATE TABLE prompt_histories (
    number INTEGER PRIMARY KEY,
    parts  BLOB    NOT NULL
) STRICT;

-- The prompts of the last responses, so that later ones can be compared with them. A higher number
-- came later.
CREATE TABLE prompts (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    owner    TEXT    NOT NULL,
    response TEXT    NOT NULL,
    session  TEXT    NOT NULL,
    history  INTEGER NOT NULL REFERENCES prompt_histories (number),
    -- Bytes of the history that belong to it.
    bytes    INTEGER NOT NULL,
    -- What else is compared, as JSON.
    details  TEXT    NOT NULL,
    -- 1 if it asks for a summary.
    summary  INTEGER NOT NULL,
    -- Seconds since 1970.
    accessed INTEGER NOT NULL,
    UNIQUE (owner, response)
) STRICT;

CREATE INDEX prompts_by_session ON prompts (owner, session, number);
CREATE INDEX prompts_by_history ON prompts (history);
CREATE INDEX prompts_by_access ON prompts (accessed);

-- Turns that the window would not have held with nothing shortened, and those of which nothing is
-- known. They were counted with the others before.
ALTER TABLE usage ADD COLUMN too_long INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN unreckoned INTEGER NOT NULL DEFAULT 0;
