SELECT
    run_rows.*,
    (SELECT until FROM refusals WHERE refusals.run = run_rows.number AND until > :now) AS refused_until
FROM json_each(:keys) AS keys
JOIN run_rows ON run_rows.owner = json_extract(keys.value, '$[0]') AND run_rows.id = json_extract(keys.value, '$[1]')
