-- Above every number that a run has, or had while there is anything left of it.
INSERT INTO runs (
    number, owner, id, log, worker, thread, digest, status, not_before, stop_at, stop_reason, outcome,
    created_at, updated_at, settled_at
) VALUES (
    max(
        coalesce((SELECT last_number FROM store), 0),
        coalesce((SELECT max(number) FROM runs), 0)
    ) + 1,
    :owner, :id, :log, :worker, :thread, :digest, :status, :now, :stop_at, :stop_reason, :outcome,
    :now, :now, iif(:outcome IS NULL, NULL, :now)
)
