-- refuse_run
-- A stretch between two refusals counts for two cool-downs at most: in a longer one nobody could ask.
INSERT INTO refusals (run, first, last, until)
SELECT number, :now, :now, :now + :retry_in FROM runs
WHERE owner = :owner AND id = :id AND epoch = :epoch AND settled_at IS NULL
ON CONFLICT (run) DO UPDATE SET
    refused_for = refused_for + min(excluded.last - last, 2 * :retry_in),
    last = excluded.last,
    until = excluded.until
RETURNING refused_for
