-- What a run was given, where that is lost or of a kind that was never written: nothing, as JSON.
INSERT INTO inputs (run, input, metadata) VALUES (:number, CAST('null' AS BLOB), CAST('{}' AS BLOB))
ON CONFLICT (run) DO UPDATE SET
    input = iif(typeof(input) = 'blob', input, excluded.input),
    metadata = iif(typeof(metadata) = 'blob', metadata, excluded.metadata),
    traceparent = iif(typeof(traceparent) = 'text', traceparent, NULL)
