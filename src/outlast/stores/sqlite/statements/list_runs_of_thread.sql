-- One page of an owner's runs on one thread, perhaps in one status, newest first.
SELECT run_rows.*, (SELECT until FROM refusals WHERE run = run_rows.number AND until > :now) AS refused_until
FROM run_rows
WHERE owner = :owner AND thread = :thread AND (:status IS NULL OR status = :status)
    AND (created_at, number) < (:created_at, :number)
ORDER BY created_at DESC, number DESC
LIMIT :limit
