-- What was learned from refusals, of models and of sessions: the changes that have helped.
CREATE TABLE learned (
    owner TEXT NOT NULL,
    -- `model/` with provider and model, or `session/` with the id of a session.
    subject TEXT NOT NULL,
    -- The changes as JSON.
    changes TEXT NOT NULL,
    -- The time of the last one, in seconds since 1970.
    learned INTEGER NOT NULL,
    PRIMARY KEY (owner, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX learned_by_time ON learned (learned);
