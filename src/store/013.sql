-- What clients did not see of answers: the calls of tools that ran in the proxy, and their results.
CREATE TABLE hidden_rounds (
    number INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    session TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    accessed INTEGER NOT NULL,
    rounds TEXT NOT NULL
) STRICT;
CREATE INDEX hidden_rounds_by_session ON hidden_rounds (owner, session, number, bytes);
CREATE INDEX hidden_rounds_by_access ON hidden_rounds (accessed);
