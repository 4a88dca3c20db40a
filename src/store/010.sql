-- The responses of an owner by their last use, with what their size is made of.
CREATE INDEX responses_by_use ON responses (owner, accessed, number, parameters, bytes);
-- So that sums need not read the frames.
CREATE INDEX contents_by_number ON contents (number, stored);
-- Other programs may have a library that does not know octet_length.
CREATE INDEX conversations_by_size
    ON conversations (owner, thread, length(CAST(metadata AS BLOB)));

-- The time up to which the store was in use, by which old things are deleted. It follows the clock,
-- but not at once where that jumps forward.
CREATE TABLE time_in_use (
    only    INTEGER PRIMARY KEY CHECK (only = 1),
    -- Seconds since 1970.
    seconds INTEGER NOT NULL
) STRICT;

INSERT INTO time_in_use
    SELECT 1, max(used) FROM (
        SELECT max(accessed) AS used FROM responses
        UNION ALL SELECT max(accessed) FROM refs
        UNION ALL SELECT max(accessed) FROM prompts
        UNION ALL SELECT max(accessed) FROM whole_sessions
    ) HAVING max(used) IS NOT NULL;
