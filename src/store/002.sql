-- What the turns of a day have used, by model.
CREATE TABLE usage (
    -- Days since 1970, in the time zone of the server.
    day      INTEGER NOT NULL,
    owner    TEXT    NOT NULL,
    provider TEXT    NOT NULL,
    model    TEXT    NOT NULL,
    turns    INTEGER NOT NULL,
    -- Tokens; cached is part of input.
    input    INTEGER NOT NULL,
    cached   INTEGER NOT NULL,
    output   INTEGER NOT NULL,
    -- US dollars, of the turns whose price is known.
    cost     REAL    NOT NULL,
    -- Turns that used tokens and whose price is unknown.
    unpriced INTEGER NOT NULL,
    PRIMARY KEY (day, owner, provider, model)
) STRICT, WITHOUT ROWID;
