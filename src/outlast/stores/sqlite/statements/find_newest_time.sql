-- The newest time by the store's clock that anything in the file knows. Read once after a reboot.
SELECT max(at) AS at FROM (
    SELECT max(updated_at) AS at FROM runs
    UNION ALL SELECT max(head_at) FROM logs
    UNION ALL SELECT max(renewed_at) FROM nodes
    UNION ALL SELECT max(last) FROM refusals
    UNION ALL SELECT max(at) FROM early_stops
    UNION ALL SELECT max(gone_at) FROM tombstones
)
