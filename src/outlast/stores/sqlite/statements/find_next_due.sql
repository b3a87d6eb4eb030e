-- The next moment at which a run becomes due without anyone writing, NULL when none is known.
--
-- A run without a live lease is due at its own time. Of a holder with one, the earliest of its runs counts, but not
-- before the lease ends: where one run is due by then, the end of the lease is the answer and no other is looked at.
WITH RECURSIVE
    holders (node) AS (
        SELECT min(holder) FROM runs WHERE settled_at IS NULL AND holder IS NOT NULL
        UNION ALL
        SELECT (SELECT min(holder) FROM runs WHERE settled_at IS NULL AND holder > node)
        FROM holders WHERE node IS NOT NULL
    ),
    held (node, until) AS (
        SELECT node, coalesce((SELECT until FROM nodes WHERE id = node), :now)
        FROM holders WHERE node IS NOT NULL
    )
SELECT min(at) AS at FROM (
    SELECT min(due_at) AS at FROM unsettled
    WHERE holder IS NULL AND due_at > :now AND typeof(due_at) NOT IN ('text', 'blob')
    AND worker IN (SELECT value FROM json_each(:workers))
    UNION ALL
    SELECT
        CASE WHEN until > :now AND EXISTS (
            SELECT 1 FROM unsettled
            WHERE holder = node AND due_at <= until AND worker IN (SELECT value FROM json_each(:workers))
        )
        THEN until
        ELSE (
            SELECT min(due_at) FROM unsettled
            WHERE holder = node AND due_at > :now AND typeof(due_at) NOT IN ('text', 'blob')
            AND worker IN (SELECT value FROM json_each(:workers))
        )
        END
    FROM held
)
