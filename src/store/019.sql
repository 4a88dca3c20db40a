-- What webhooks have not been told yet of background responses: their end, and what happened before.
ALTER TABLE deliveries RENAME TO older_deliveries;
DROP INDEX deliveries_by_due;
CREATE TABLE deliveries (
    response INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
    -- The name of the webhook in the configuration.
    webhook  TEXT    NOT NULL,
    -- The id of the event, and the event as JSON.
    event    TEXT    NOT NULL,
    body     TEXT    NOT NULL,
    -- When it happened, in seconds since 1970.
    created  INTEGER NOT NULL,
    -- How often it was tried.
    attempts INTEGER NOT NULL,
    -- When it is tried next, in seconds since 1970.
    due      INTEGER NOT NULL,
    PRIMARY KEY (response, webhook, event)
) STRICT, WITHOUT ROWID;
INSERT INTO deliveries
    SELECT response, webhook, 'evt_' || replace(id, 'resp_', ''),
        json_object('id', 'evt_' || replace(id, 'resp_', ''), 'object', 'event',
            'created_at', ended / 1000, 'type', 'response.' || status,
            'data', json_object('id', id)),
        ended / 1000, attempts, due
    FROM older_deliveries JOIN responses ON responses.number = response JOIN jobs USING (response)
    WHERE ended IS NOT NULL;
DROP TABLE older_deliveries;
CREATE INDEX deliveries_by_due ON deliveries (webhook, due);
