-- US dollars that the turns would have cost with nothing shortened, of those whose price is known.
-- Of earlier turns nothing is known but what they cost.
ALTER TABLE usage ADD COLUMN unshortened REAL NOT NULL DEFAULT 0;
UPDATE usage SET unshortened = cost;
