-- forget_absences
-- Workers that are here, and those whose last run has its outcome.
DELETE FROM absences
WHERE worker IN (SELECT value FROM json_each(:workers))
    OR worker NOT IN (SELECT worker FROM runs WHERE settled_at IS NULL)
