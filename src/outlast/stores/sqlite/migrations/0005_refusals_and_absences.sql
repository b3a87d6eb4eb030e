-- How long a run has been refused, and how long a worker has been on no node: both counted by those who look, so
-- that time in which nobody could look does not count.

ALTER TABLE refusals ADD COLUMN refused_for REAL NOT NULL DEFAULT 0;

-- A worker of unsettled runs that the node which looked last does not have.
CREATE TABLE absences (
    worker TEXT PRIMARY KEY,
    last REAL NOT NULL,
    absent_for REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
