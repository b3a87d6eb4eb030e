-- The terminal event is the new head, the settling token the fence, unless a higher one is told already.
UPDATE logs SET
    seq = :seq,
    chain = :chain,
    bytes = bytes + :bytes,
    own_events = own_events + 1,
    own_bytes = own_bytes + :bytes,
    fence_claim = iif(fence_epoch > :epoch, fence_claim, :claim),
    fence_epoch = max(fence_epoch, :epoch),
    head_at = :now,
    sealed = 1
WHERE number = :number
