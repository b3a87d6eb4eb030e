-- How late a node's event loop was when its lease was last renewed: for people who look at a fleet, decides nothing.
ALTER TABLE nodes ADD COLUMN lag REAL NOT NULL DEFAULT 0;
