-- Of one owner's early stops, all but the newest.
DELETE FROM early_stops
WHERE owner = :owner AND number NOT IN (
    SELECT number FROM early_stops WHERE owner = :owner ORDER BY at DESC, number DESC LIMIT :kept
)
