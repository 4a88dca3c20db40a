-- Background responses that have ended and of which a webhook has not been told yet.
CREATE TABLE deliveries (
    response INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
    -- The name of the webhook in the configuration.
    webhook  TEXT    NOT NULL,
    -- How often it was tried.
    attempts INTEGER NOT NULL,
    -- When it is tried next, in seconds since 1970.
    due      INTEGER NOT NULL,
    PRIMARY KEY (response, webhook)
) STRICT, WITHOUT ROWID;

CREATE INDEX deliveries_by_due ON deliveries (webhook, due);
