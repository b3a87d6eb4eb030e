-- An outcome for a row that cannot be read: what is of a kind that was never written is emptied with it.
UPDATE runs SET
    status = :status,
    epoch = epoch + 1,
    claim = :claim,
    holder = NULL,
    thread = iif(typeof(thread) = 'text', thread, NULL),
    worker = iif(typeof(worker) = 'text', worker, ''),
    digest = iif(typeof(digest) = 'blob', digest, x''),
    cause = NULL,
    not_before = iif(typeof(not_before) = 'real', not_before, 0),
    wake_at = NULL,
    stop_at = iif(typeof(stop_at) = 'real', stop_at, NULL),
    stop_reason = iif(typeof(stop_reason) = 'text', stop_reason, NULL),
    outcome = :outcome,
    result = :result,
    created_at = iif(typeof(created_at) = 'real', created_at, :now),
    updated_at = :now,
    settled_at = :now
WHERE number = :number
