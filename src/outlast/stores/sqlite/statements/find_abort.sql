SELECT 1 FROM outbox CROSS JOIN runs ON runs.number = outbox.run
WHERE outbox.due_at <= :now AND runs.worker IN (SELECT value FROM json_each(:workers))
LIMIT 1
