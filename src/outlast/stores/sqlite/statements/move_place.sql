INSERT INTO places (server, owner, run, types, cursor, over, moved_at)
VALUES (:server, :owner, :run, :types, :cursor, :over, :now)
ON CONFLICT (server, owner, run, types) DO UPDATE SET
    cursor = excluded.cursor,
    over = excluded.over,
    moved_at = excluded.moved_at
