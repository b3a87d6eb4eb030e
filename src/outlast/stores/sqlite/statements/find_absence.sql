-- find_absence
-- Whether there is anything to note: a worker of these that was absent, or one of unsettled runs that is not of these.
SELECT
    EXISTS (SELECT 1 FROM absences)
    OR EXISTS (
        SELECT 1 FROM runs WHERE settled_at IS NULL AND worker NOT IN (SELECT value FROM json_each(:workers))
    )
