-- With how many bytes per token sessions began with a model, and how many their requests have shown
-- since: `session` is a session with a model.
CREATE TABLE token_ratios (
    number INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    session TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    accessed INTEGER NOT NULL,
    ratio TEXT NOT NULL
) STRICT;
CREATE INDEX token_ratios_by_session ON token_ratios (owner, session, number, bytes);
CREATE INDEX token_ratios_by_access ON token_ratios (accessed);
