INSERT INTO logs (number, id, chain, opened_at, head_at)
VALUES (:number, :id, :chain, :now, :now)
