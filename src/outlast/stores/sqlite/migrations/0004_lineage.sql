-- Who held a run, claim by claim: one row for every epoch, written with what raises it.
--
-- A run claimed before this has no rows for its earlier epochs.

CREATE TABLE lineage (
    run INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    claim TEXT NOT NULL,
    node TEXT,
    at REAL NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('claim', 'takeover', 'handoff', 'settle')),
    cause TEXT,
    calls INTEGER NOT NULL,
    PRIMARY KEY (run, epoch)
) WITHOUT ROWID;

CREATE TRIGGER lineage_stays BEFORE UPDATE ON lineage
BEGIN SELECT raise(ABORT, 'what a claim was stays what it was'); END;

-- Numbers are given again: what a run leaves behind would be taken for another's.
CREATE TRIGGER lineage_goes_with_its_run AFTER DELETE ON runs
BEGIN DELETE FROM lineage WHERE run = OLD.number; END;
