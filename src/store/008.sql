-- What each owner has used on a day in UTC, for the limits of a day.
CREATE TABLE spent (
    -- Days since 1970.
    day    INTEGER NOT NULL,
    owner  TEXT    NOT NULL,
    -- Input and output together.
    tokens INTEGER NOT NULL,
    -- US dollars.
    cost   REAL    NOT NULL,
    PRIMARY KEY (day, owner)
) STRICT, WITHOUT ROWID;
