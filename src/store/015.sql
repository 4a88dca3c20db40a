-- The addresses that sessions were shown of the web, by the ids that a model has of them.
CREATE TABLE web_references (
    number INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    session TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    accessed INTEGER NOT NULL,
    ids TEXT NOT NULL
) STRICT;
CREATE INDEX web_references_by_session ON web_references (owner, session, number, bytes);
CREATE INDEX web_references_by_access ON web_references (accessed);
