-- The append's compare-and-set: the fence lets the token in, the head is where the events go on from. It changes
-- no row when anything is different, and then nothing is written. (RETURNING would cost half as much again.)
UPDATE OR FAIL logs SET
    fence_epoch = ?1, fence_claim = ?2, seq = ?3, chain = ?4, bytes = bytes + ?5, head_at = ?6,
    own_events = own_events + ?10, own_bytes = own_bytes + ?11
WHERE number = ?7 AND seq = ?8 AND chain = ?9 AND NOT sealed
    AND (fence_epoch < ?1 OR (fence_epoch = ?1 AND fence_claim = ?2))
