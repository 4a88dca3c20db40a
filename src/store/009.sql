-- The large items of a range, without reading the others.
CREATE INDEX items_with_content ON items (number, content) WHERE content IS NOT NULL;
