-- How many sends of a server somebody has still to take note of, and how much they hold.
SELECT count(*) AS sends, coalesce(sum(length(content)), 0) AS held
FROM sends
WHERE server = :server AND state <> 'accepted'
