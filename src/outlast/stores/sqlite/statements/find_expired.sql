-- Runs past their retention, the longest ended first. One whose worker is still to be told is waited for, a while.
SELECT number FROM runs
WHERE settled_at <= :finished
    AND (settled_at <= :waited OR NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.run = runs.number))
ORDER BY settled_at
LIMIT :limit
