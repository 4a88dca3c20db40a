-- The runs of workflows that wait for a person, each with the response that asks.
CREATE TABLE workflow_runs (
    response INTEGER PRIMARY KEY REFERENCES responses (number) ON DELETE CASCADE,
    owner    TEXT    NOT NULL,
    -- The id of the item that asks.
    approval TEXT    NOT NULL,
    -- In seconds since 1970.
    created  INTEGER NOT NULL,
    -- The run as JSON.
    run      TEXT    NOT NULL,
    -- The id of the response that goes on with it.
    taken_by TEXT
) STRICT;
CREATE UNIQUE INDEX workflow_runs_by_approval ON workflow_runs (owner, approval);
