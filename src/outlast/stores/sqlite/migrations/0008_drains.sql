-- What a node could go on with, as a JSON array of names, and whether it is leaving: who leaves looks for those who stay.
-- Of a node that an older version runs nobody knows its workers.
ALTER TABLE nodes ADD COLUMN workers TEXT;
ALTER TABLE nodes ADD COLUMN draining INTEGER NOT NULL DEFAULT 0;
