-- Runs that nobody holds and that are due, the oldest `not_before` first.
--
-- `holders` steps from one holder of unsettled runs to the next, so it costs what nodes cost, not what runs cost.
-- The two arms are merged in order and end with the limit: runs without a holder, which lie in order already, and
-- runs whose holder has no live lease. A time that cannot be read is due: whoever reads the row tells of it. What is
-- held back is looked up per run, by its number, only where a worker is: what was let go, or lost its node, less than
-- a window after its last takeover.
WITH RECURSIVE
    holders (node) AS (
        SELECT min(holder) FROM runs WHERE settled_at IS NULL AND holder IS NOT NULL
        UNION ALL
        SELECT (SELECT min(holder) FROM runs WHERE settled_at IS NULL AND holder > node)
        FROM holders WHERE node IS NOT NULL
    ),
    lost (node, driven_until) AS (
        SELECT node, coalesce((SELECT until FROM nodes WHERE id = node), :now) FROM holders
        WHERE node IS NOT NULL AND NOT EXISTS (SELECT 1 FROM nodes WHERE id = node AND until > :now)
    ),
    due (number, not_before) AS (
        SELECT number, not_before FROM unsettled
        WHERE holder IS NULL AND (due_at <= :now OR typeof(due_at) IN ('text', 'blob'))
        AND worker IN (SELECT value FROM json_each(:workers))
        AND NOT (worker IN (SELECT value FROM json_each(:held_back)) AND EXISTS (
            SELECT 1 FROM runs AS later WHERE later.number = unsettled.number AND later.status = 'active'
            AND later.updated_at - later.last_takeover_at < :within AND later.cause IS NOT 'handoff' AND later.stop_at IS NULL
        ))
        UNION ALL
        SELECT number, not_before FROM lost CROSS JOIN unsettled ON holder = node
        WHERE (due_at <= :now OR typeof(due_at) IN ('text', 'blob'))
        AND worker IN (SELECT value FROM json_each(:workers))
        AND NOT (worker IN (SELECT value FROM json_each(:held_back)) AND EXISTS (
            SELECT 1 FROM runs AS later WHERE later.number = unsettled.number AND later.status = 'active'
            AND driven_until - later.last_takeover_at < :within AND later.cause IS NOT 'handoff' AND later.stop_at IS NULL
        ))
        ORDER BY not_before
        LIMIT :limit
    )
SELECT * FROM run_rows WHERE number IN (SELECT number FROM due) ORDER BY not_before, number
