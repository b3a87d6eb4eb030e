SELECT * FROM sends
WHERE server = :server AND state IN ('queued', 'sent')
ORDER BY number
LIMIT 1
