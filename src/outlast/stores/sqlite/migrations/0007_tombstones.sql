-- What is left of a run whose retention is over, or that was erased.

-- `number` and `log` were the run's. Its events lie under its number until they are deleted, some at a time: `emptied`
-- says that none is left. `created_at` lets a list of runs go on behind a run that is gone.
CREATE TABLE tombstones (
    number INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    log TEXT NOT NULL UNIQUE,
    created_at REAL NOT NULL,
    gone_at REAL NOT NULL,
    emptied INTEGER NOT NULL DEFAULT 0,
    UNIQUE (owner, id)
);

CREATE INDEX tombstones_by_age ON tombstones (gone_at);
CREATE INDEX tombstones_to_empty ON tombstones (number) WHERE NOT emptied;

-- Ended runs, the longest ended first.
CREATE INDEX runs_settled ON runs (settled_at) WHERE settled_at IS NOT NULL;

-- The highest number of any run that is gone: no other run gets it, whose log would begin among the old events.
ALTER TABLE store ADD COLUMN last_number INTEGER NOT NULL DEFAULT 0;

CREATE TRIGGER numbers_are_used_once AFTER DELETE ON runs
BEGIN UPDATE store SET last_number = max(last_number, OLD.number); END;

CREATE TRIGGER unsettled_runs_stay BEFORE DELETE ON runs
WHEN OLD.settled_at IS NULL
BEGIN SELECT raise(ABORT, 'only a run that has ended may go'); END;

CREATE TRIGGER gone_runs_stay_gone BEFORE INSERT ON runs
WHEN EXISTS (SELECT 1 FROM tombstones WHERE number = NEW.number OR (owner = NEW.owner AND id = NEW.id))
BEGIN SELECT raise(ABORT, 'a run that is gone does not come back'); END;

CREATE TRIGGER gone_logs_stay_gone BEFORE INSERT ON logs
WHEN EXISTS (SELECT 1 FROM tombstones WHERE number = NEW.number OR log = NEW.id)
BEGIN SELECT raise(ABORT, 'a log that is gone does not come back'); END;

-- As before, and nothing is written to a log that is not there.
DROP TRIGGER sealed_logs_end;

CREATE TRIGGER sealed_logs_end BEFORE INSERT ON events
WHEN (SELECT sealed FROM logs WHERE number = NEW.place >> 32) IS NOT 0
BEGIN SELECT raise(FAIL, 'nothing follows the terminal event'); END;

-- As before, and a run that has lost what it was given is still found.
DROP VIEW run_rows;

CREATE VIEW run_rows AS
SELECT runs.*, inputs.input, inputs.metadata, inputs.traceparent, nodes.until AS lease_until, nodes.stalled
FROM runs
LEFT JOIN inputs ON inputs.run = runs.number
LEFT JOIN nodes ON nodes.id = runs.holder;
