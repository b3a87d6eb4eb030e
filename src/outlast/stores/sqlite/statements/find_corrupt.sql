-- A run by its log; the table of runs is searched only where the log itself is lost.
SELECT * FROM run_rows
WHERE number = coalesce((SELECT number FROM logs WHERE id = :log), (SELECT number FROM runs WHERE log = :log))
