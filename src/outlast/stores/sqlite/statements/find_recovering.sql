SELECT runs.log
FROM json_each(:keys) AS keys
JOIN runs ON runs.owner = json_extract(keys.value, '$[0]') AND runs.id = json_extract(keys.value, '$[1]')
WHERE runs.status = 'active'
AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.id = runs.holder AND nodes.until > :now)
