-- How far an application has taken each run, or each view of one; '' is one's own owner, and all types.
CREATE TABLE places (
    server TEXT NOT NULL,
    owner TEXT NOT NULL,
    run TEXT NOT NULL,
    types TEXT NOT NULL,
    cursor TEXT NOT NULL,
    over INTEGER NOT NULL CHECK (over IN (0, 1)),
    moved_at REAL NOT NULL,
    PRIMARY KEY (server, owner, run, types)
) WITHOUT ROWID;

CREATE INDEX places_by_age ON places (over, moved_at);

-- What is to be sent, in order. The content of what was accepted is empty; its digest stays.
CREATE TABLE sends (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    server TEXT NOT NULL,
    owner TEXT NOT NULL,
    run TEXT NOT NULL,
    kind TEXT NOT NULL,
    content BLOB NOT NULL,
    digest BLOB NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'sent', 'accepted', 'rejected')),
    tries INTEGER NOT NULL DEFAULT 0,
    code TEXT,
    UNIQUE (server, owner, run, kind)
);

CREATE INDEX sends_to_be_sent ON sends (server, number) WHERE state IN ('queued', 'sent');

CREATE TRIGGER settled_sends_stay BEFORE UPDATE OF state ON sends
WHEN old.state IN ('accepted', 'rejected') OR new.state = 'queued'
BEGIN
    SELECT raise(ABORT, 'an answer settles a send for good');
END;
