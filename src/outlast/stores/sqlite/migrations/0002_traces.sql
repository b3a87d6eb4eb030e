-- The trace of whoever started a run, so that a takeover goes on with it. With the input: it never changes.
ALTER TABLE inputs ADD COLUMN traceparent TEXT;

DROP VIEW run_rows;

CREATE VIEW run_rows AS
SELECT runs.*, inputs.input, inputs.metadata, inputs.traceparent, nodes.until AS lease_until, nodes.stalled
FROM runs
JOIN inputs ON inputs.run = runs.number
LEFT JOIN nodes ON nodes.id = runs.holder;
