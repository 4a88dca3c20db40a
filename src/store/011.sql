-- The items of an owner with an id, without reading those of others: clients choose the ids.
ALTER TABLE items ADD COLUMN owner TEXT;
UPDATE items SET owner = (SELECT owner FROM threads WHERE threads.number = items.number >> 24);
DROP INDEX items_by_id;
CREATE INDEX items_by_owner ON items (owner, id);
