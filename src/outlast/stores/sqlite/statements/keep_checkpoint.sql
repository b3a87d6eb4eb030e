-- A run keeps one checkpoint, the newest. One that was kept already, or is older, changes nothing.
INSERT INTO checkpoints (run, seq, state) VALUES (:run, :seq, :state)
ON CONFLICT (run) DO UPDATE SET seq = excluded.seq, state = excluded.state WHERE excluded.seq > checkpoints.seq
