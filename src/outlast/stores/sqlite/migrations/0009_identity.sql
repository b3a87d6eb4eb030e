-- Which store this is: made once, told to clients by every node on it, and kept by every copy of the file.
CREATE TABLE identity (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    id TEXT NOT NULL
);

INSERT INTO identity (only, id) VALUES (1, lower(hex(randomblob(12))));

CREATE TRIGGER identity_stays BEFORE UPDATE ON identity
BEGIN SELECT raise(ABORT, 'a store stays the one it is'); END;

CREATE TRIGGER identity_is_kept BEFORE DELETE ON identity
BEGIN SELECT raise(ABORT, 'a store stays the one it is'); END;
