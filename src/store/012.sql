-- 1 if the process ended before the run did, so that clients may have seen events that were not
-- written. Before, only the words of its error told.
ALTER TABLE jobs ADD COLUMN interrupted INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET interrupted = 1 WHERE response IN (
    SELECT number FROM responses WHERE status = 'failed' AND background = 1 AND instr(head,
        'The server ended while it answered this request, so the answer is not complete: '
        || 'send the request again.') > 0
);
