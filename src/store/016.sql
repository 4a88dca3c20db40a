-- What an owner has used of the web on a day: searches that were sent to a search engine, and pages
-- that were asked for.
ALTER TABLE spent ADD COLUMN searches INTEGER NOT NULL DEFAULT 0;
ALTER TABLE spent ADD COLUMN pages INTEGER NOT NULL DEFAULT 0;
