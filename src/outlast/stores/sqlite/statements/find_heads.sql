SELECT id, seq, chain FROM logs WHERE id IN (SELECT value FROM json_each(:logs))
