-- What raised the epoch, told from the row as it is after that.
INSERT INTO lineage (run, epoch, claim, node, at, kind, cause, calls)
SELECT number, epoch, claim, :node, :now, :kind, :cause, calls FROM runs
WHERE number = :number
