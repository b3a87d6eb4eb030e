-- Of what was accepted the newest are kept.
DELETE FROM sends
WHERE server = :server AND state = 'accepted' AND number <= (
    SELECT number FROM sends
    WHERE server = :server AND state = 'accepted'
    ORDER BY number DESC
    LIMIT 1 OFFSET :kept
)
