-- One page of an owner's runs, newest first; runs of one moment in the order they came.
SELECT run_rows.*, (SELECT until FROM refusals WHERE run = run_rows.number AND until > :now) AS refused_until
FROM run_rows
WHERE owner = :owner AND (created_at, number) < (:created_at, :number)
ORDER BY created_at DESC, number DESC
LIMIT :limit
