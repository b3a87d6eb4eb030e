-- note_absences
-- A stretch between two looks counts for two intervals at most: in a longer one no node was there to look.
INSERT INTO absences (worker, last)
SELECT DISTINCT worker, :now FROM runs
WHERE settled_at IS NULL AND worker NOT IN (SELECT value FROM json_each(:workers))
ON CONFLICT (worker) DO UPDATE SET
    absent_for = absent_for + min(excluded.last - last, 2 * :every),
    last = excluded.last
