INSERT INTO refusals (run, first, last, until)
SELECT number, :now, :now, :until FROM runs
WHERE owner = :owner AND id = :id AND epoch = :epoch AND settled_at IS NULL
ON CONFLICT (run) DO UPDATE SET last = excluded.last, until = excluded.until
