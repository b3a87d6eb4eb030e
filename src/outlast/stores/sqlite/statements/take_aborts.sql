-- Take the oldest due aborts of these workers and hide them from everybody for a while.
UPDATE outbox SET due_at = :until, tries = tries + 1
WHERE id IN (
    SELECT outbox.id FROM outbox CROSS JOIN runs ON runs.number = outbox.run
    WHERE outbox.due_at <= :now AND runs.worker IN (SELECT value FROM json_each(:workers))
    ORDER BY outbox.due_at
    LIMIT :limit
)
RETURNING id, run, tries - 1 AS tries
