-- What a resume worker goes on from, what of a log no limit counts, and the runs of one thread.

-- Apart from the run's row, because SQLite writes a row anew as a whole at every change of it. Gone with the outcome.
CREATE TABLE checkpoints (
    run INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL CHECK (seq > 0),
    state BLOB NOT NULL
);

CREATE TRIGGER checkpoints_go_forwards BEFORE UPDATE ON checkpoints
WHEN NEW.seq < OLD.seq
BEGIN SELECT raise(ABORT, 'a checkpoint never goes back'); END;

-- How many of a log's events are Outlast's own and exempt from its limits, and the bytes of their payload.
ALTER TABLE logs ADD COLUMN own_events INTEGER NOT NULL DEFAULT 0;
ALTER TABLE logs ADD COLUMN own_bytes INTEGER NOT NULL DEFAULT 0;

-- Sealed logs take nothing more, and never change.
UPDATE logs SET
    own_events = (
        SELECT count(*) FROM events
        WHERE place > logs.number << 32 AND place < (logs.number + 1) << 32 AND type GLOB 'run.*'
    ),
    own_bytes = (
        SELECT coalesce(sum(length(data)), 0) FROM events
        WHERE place > logs.number << 32 AND place < (logs.number + 1) << 32 AND type GLOB 'run.*'
    )
WHERE NOT sealed;

-- A conversation, newest first.
CREATE INDEX runs_by_thread ON runs (owner, thread, created_at) WHERE thread IS NOT NULL;
