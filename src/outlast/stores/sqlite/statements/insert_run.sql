INSERT INTO runs (
    owner, id, log, worker, thread, digest, status, not_before, stop_at, stop_reason, outcome,
    created_at, updated_at, settled_at
) VALUES (
    :owner, :id, :log, :worker, :thread, :digest, :status, :now, :stop_at, :stop_reason, :outcome,
    :now, :now, iif(:outcome IS NULL, NULL, :now)
)
