-- The next events to be deleted of one log, and their sizes, which need not be read for it.
SELECT place, length(data) AS size FROM events
WHERE place > :after AND place < :before
ORDER BY place
LIMIT :limit
