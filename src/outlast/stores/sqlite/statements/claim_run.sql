-- The claim: compare what was read with what is stored, charge, and change hands, or change nothing.
-- `calls` is never written lower: a controller that is not fenced yet may have charged one since the run was read.
UPDATE runs SET
    status = 'active',
    epoch = epoch + 1,
    claim = :claim,
    holder = :node,
    cause = NULL,
    takeovers = :takeovers,
    last_takeover_at = :last_takeover_at,
    causes = :causes,
    life = :life,
    handoffs = :handoffs,
    calls = max(calls, :calls),
    waits = max(waits, :waits),
    not_before = :not_before,
    wake_at = NULL,
    updated_at = :now
WHERE owner = :owner AND id = :id AND log = :log
    AND epoch = :epoch
    AND settled_at IS NULL
    AND stop_at IS NULL
    AND CASE status WHEN 'parked' THEN wake_at ELSE not_before END <= :now
    AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.id = holder AND until > :now)
    AND EXISTS (SELECT 1 FROM nodes WHERE nodes.id = :node AND until > :now)
RETURNING number
