-- find_forsaken
-- Runs that nobody holds, due for as long as their worker has been on no node, and untouched meanwhile.
SELECT run_rows.* FROM absences
CROSS JOIN unsettled ON unsettled.worker = absences.worker
CROSS JOIN run_rows ON run_rows.number = unsettled.number
WHERE absences.absent_for >= :after
    AND unsettled.due_at <= :now - :after
    AND run_rows.updated_at <= :now - :after
    AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.id = unsettled.holder AND until > :now)
ORDER BY run_rows.number
LIMIT :limit
