SELECT run_rows.*
FROM json_each(:keys) AS keys
JOIN run_rows ON run_rows.owner = json_extract(keys.value, '$[0]') AND run_rows.id = json_extract(keys.value, '$[1]')
