-- A stop repeated is younger, and keeps the reason it was first given.
INSERT INTO early_stops (owner, id, at, reason) VALUES (:owner, :id, :now, :reason)
ON CONFLICT (owner, id) DO UPDATE SET at = excluded.at
