-- A node's lease, whether it is the first, a renewal, one that ran out or one that was deleted.
INSERT INTO nodes (id, boot_id, until, stalled, lag, renewed_at, workers)
VALUES (:node, :boot_id, :until, :stalled, :lag, :now, :workers)
ON CONFLICT (id) DO UPDATE SET
    boot_id = excluded.boot_id,
    until = excluded.until,
    stalled = excluded.stalled,
    lag = excluded.lag,
    renewed_at = excluded.renewed_at,
    workers = excluded.workers
