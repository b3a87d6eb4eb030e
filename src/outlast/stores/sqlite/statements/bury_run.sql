-- What stays of a run that is gone.
INSERT INTO tombstones (number, owner, id, log, created_at, gone_at)
SELECT number, owner, id, log, created_at, :now FROM runs WHERE number = :number
