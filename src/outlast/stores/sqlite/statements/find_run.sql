-- One run, with until when the refusal of a prerequisite holds it back.
SELECT run_rows.*, (SELECT until FROM refusals WHERE run = run_rows.number AND until > :now) AS refused_until
FROM run_rows
WHERE owner = :owner AND id = :id
