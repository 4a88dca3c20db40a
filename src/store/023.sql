-- What turns have used by the hour, for the last days; `usage` has the same by the day, for longer.
CREATE TABLE usage_hours (
    -- Hours since 1970.
    hour        INTEGER NOT NULL,
    owner       TEXT    NOT NULL,
    provider    TEXT    NOT NULL,
    model       TEXT    NOT NULL,
    turns       INTEGER NOT NULL,
    input       INTEGER NOT NULL,
    cached      INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    cost        REAL    NOT NULL,
    unpriced    INTEGER NOT NULL,
    unshortened REAL    NOT NULL,
    too_long    INTEGER NOT NULL,
    unreckoned  INTEGER NOT NULL,
    PRIMARY KEY (hour, owner, provider, model)
) STRICT, WITHOUT ROWID;
