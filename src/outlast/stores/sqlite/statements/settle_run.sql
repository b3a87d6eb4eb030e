-- Everything an outcome changes on the row, in one update: after it no other is possible.
UPDATE runs SET
    status = :status,
    epoch = :epoch,
    claim = :claim,
    holder = NULL,
    stop_reason = iif(stop_at IS NULL, :stop_reason, stop_reason),
    stop_at = coalesce(stop_at, :stop_at),
    outcome = :outcome,
    result = :result,
    updated_at = :now,
    settled_at = :now
WHERE number = :number
