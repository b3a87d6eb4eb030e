INSERT INTO sends (server, owner, run, kind, content, digest, state)
VALUES (:server, :owner, :run, :kind, :content, :digest, 'queued')
RETURNING *
