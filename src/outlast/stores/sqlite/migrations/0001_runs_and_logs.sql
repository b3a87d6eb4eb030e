-- Runs, their logs, the nodes that drive them, and what must not be forgotten in between.
--
-- Times are seconds by the store's clock (see `store`). A run and its log share one number: it is what other
-- tables point with. The triggers at the end hold against everybody, also against a person with a SQL prompt.

-- ---- the store itself ----

-- `clock_offset` turns the boot-time clock of boot `boot_id` into the store's time. `stirred` counts the commits that
-- a waiting node wants to hear of, so that other processes' appends do not wake it.
CREATE TABLE store (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    boot_id TEXT NOT NULL,
    clock_offset REAL NOT NULL,
    stirred INTEGER NOT NULL DEFAULT 0
);

-- ---- runs ----

CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    log TEXT NOT NULL,
    worker TEXT NOT NULL,
    thread TEXT,
    digest BLOB NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('queued', 'active', 'parked', 'completed', 'failed', 'cancelled')),
    epoch INTEGER NOT NULL DEFAULT 0 CHECK (typeof(epoch) = 'integer' AND epoch >= 0),
    claim TEXT,
    holder TEXT,
    cause TEXT,
    -- The open window. Unchecked on purpose: unreadable, it is a fresh window.
    takeovers INTEGER DEFAULT 0,
    last_takeover_at REAL,
    causes TEXT DEFAULT '[]',
    -- Counted for the life of the run, never guessed.
    life INTEGER NOT NULL DEFAULT 0 CHECK (typeof(life) = 'integer' AND life >= 0),
    handoffs INTEGER NOT NULL DEFAULT 0 CHECK (typeof(handoffs) = 'integer' AND handoffs >= 0),
    calls INTEGER NOT NULL DEFAULT 0 CHECK (typeof(calls) = 'integer' AND calls >= 0),
    waits INTEGER NOT NULL DEFAULT 0 CHECK (typeof(waits) = 'integer' AND waits >= 0),
    not_before REAL NOT NULL,
    wake_at REAL,
    stop_at REAL,
    stop_reason TEXT,
    outcome TEXT,
    result BLOB,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    settled_at REAL,
    UNIQUE (owner, id),
    CHECK ((status IN ('completed', 'failed', 'cancelled')) = (settled_at IS NOT NULL)),
    CHECK ((outcome IS NOT NULL) = (settled_at IS NOT NULL)),
    CHECK (holder IS NULL OR settled_at IS NULL)
);

-- One live run per thread.
CREATE UNIQUE INDEX runs_of_thread ON runs (owner, thread) WHERE thread IS NOT NULL AND settled_at IS NULL;
-- What nodes look for. Partial, so that a million finished runs cost it nothing.
CREATE INDEX runs_unsettled ON runs (holder, not_before) WHERE settled_at IS NULL;
CREATE INDEX runs_stopping ON runs (holder) WHERE stop_at IS NOT NULL AND settled_at IS NULL;
-- What people list, newest first.
CREATE INDEX runs_of_owner ON runs (owner, created_at);
CREATE INDEX runs_of_status ON runs (owner, status, created_at);

-- What a run was given. Apart from its row, because SQLite writes a row anew as a whole at every change of it.
CREATE TABLE inputs (
    run INTEGER PRIMARY KEY,
    input BLOB NOT NULL,
    metadata BLOB NOT NULL
);

-- A prerequisite that refused a run. Apart from its row, which a refusal leaves byte for byte.
CREATE TABLE refusals (
    run INTEGER PRIMARY KEY,
    first REAL NOT NULL,
    last REAL NOT NULL,
    until REAL NOT NULL
);

-- Stops that came before their run.
CREATE TABLE early_stops (
    number INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    at REAL NOT NULL,
    reason TEXT,
    UNIQUE (owner, id)
);

CREATE INDEX early_stops_by_age ON early_stops (at);

-- Workers to be told that a run is over. AUTOINCREMENT: an id given again would let a late second "finished" delete
-- another run's abort.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL UNIQUE,
    due_at REAL NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX outbox_due ON outbox (due_at);

-- A node's lease is live while `until` lies ahead.
CREATE TABLE nodes (
    id TEXT PRIMARY KEY,
    boot_id TEXT NOT NULL,
    until REAL NOT NULL,
    stalled INTEGER NOT NULL DEFAULT 0,
    renewed_at REAL NOT NULL
) WITHOUT ROWID;

-- A run as it is read: with what it was given and its holder's lease.
CREATE VIEW run_rows AS
SELECT runs.*, inputs.input, inputs.metadata, nodes.until AS lease_until, nodes.stalled
FROM runs
JOIN inputs ON inputs.run = runs.number
LEFT JOIN nodes ON nodes.id = runs.holder;

-- When an unsettled run becomes due, whoever holds it; NULL for one that is parked without a time.
CREATE VIEW unsettled AS
SELECT
    number, worker, holder, not_before,
    CASE
        WHEN stop_at IS NOT NULL THEN stop_at
        ELSE max(
            CASE status WHEN 'parked' THEN wake_at ELSE not_before END,
            coalesce((SELECT until FROM refusals WHERE refusals.run = runs.number), 0)
        )
    END AS due_at
FROM runs
WHERE settled_at IS NULL;

-- ---- logs ----

-- The fence is the highest token the log was told. 2^32 - 1 is the last seq that fits `events.place`.
CREATE TABLE logs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    fence_epoch INTEGER NOT NULL DEFAULT 0,
    fence_claim TEXT,
    seq INTEGER NOT NULL DEFAULT 0 CHECK (seq BETWEEN 0 AND 4294967295),
    chain BLOB NOT NULL,
    first INTEGER NOT NULL DEFAULT 1,
    bytes INTEGER NOT NULL DEFAULT 0,
    opened_at REAL NOT NULL,
    head_at REAL NOT NULL,
    sealed INTEGER NOT NULL DEFAULT 0
);

-- `place` is the log's number times 2^32, plus the seq: one integer keeps each log's events together, in order. A
-- page of them is read and one day freed as a whole. (A key of two columns makes an index of it, whose pages fill
-- worse: 30 % more is written. A table in order of arrival with an index beside it writes less, and reads three
-- times as slowly.)
CREATE TABLE events (
    place INTEGER PRIMARY KEY,
    chain BLOB NOT NULL,
    type TEXT NOT NULL,
    content_type TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    time REAL NOT NULL,
    data BLOB NOT NULL
);

-- ---- what nobody may do ----

-- The table `run.TRANSITIONS`; a test holds the two together.
CREATE TRIGGER runs_move_by_the_table BEFORE UPDATE OF status ON runs
WHEN OLD.status <> NEW.status AND (OLD.status, NEW.status) NOT IN (
    VALUES
        ('queued', 'active'), ('queued', 'failed'), ('queued', 'cancelled'),
        ('active', 'parked'), ('active', 'completed'), ('active', 'failed'), ('active', 'cancelled'),
        ('parked', 'active'), ('parked', 'failed'), ('parked', 'cancelled')
)
BEGIN SELECT raise(ABORT, 'a run does not move this way'); END;

CREATE TRIGGER settled_runs_stay BEFORE UPDATE ON runs
WHEN OLD.settled_at IS NOT NULL
BEGIN SELECT raise(ABORT, 'a settled run never changes'); END;

CREATE TRIGGER run_counters_rise BEFORE UPDATE ON runs
WHEN NEW.epoch < OLD.epoch OR (NEW.epoch = OLD.epoch AND NEW.claim IS NOT OLD.claim)
    OR NEW.life < OLD.life OR NEW.handoffs < OLD.handoffs OR NEW.calls < OLD.calls OR NEW.waits < OLD.waits
BEGIN SELECT raise(ABORT, 'an epoch or a life counter never falls, and an epoch has one claim'); END;

-- Also what keeps REPLACE from being an update that no other trigger sees.
CREATE TRIGGER runs_begin_once BEFORE INSERT ON runs
WHEN NEW.status NOT IN ('queued', 'cancelled')
    OR EXISTS (SELECT 1 FROM runs WHERE number = NEW.number OR (owner = NEW.owner AND id = NEW.id))
BEGIN SELECT raise(ABORT, 'a run begins once, queued or cancelled'); END;

CREATE TRIGGER logs_begin_once BEFORE INSERT ON logs
WHEN EXISTS (SELECT 1 FROM logs WHERE number = NEW.number OR id = NEW.id)
BEGIN SELECT raise(ABORT, 'a log begins once'); END;

-- Two triggers lie on the way of every append. They say FAIL, and so do its statements: with ABORT, SQLite would keep a
-- journal of each statement to undo it, at a third of its cost. Nothing is left of one that fails: it is one row.
CREATE TRIGGER logs_go_forwards BEFORE UPDATE ON logs
WHEN OLD.sealed OR NEW.seq < OLD.seq OR NEW.fence_epoch < OLD.fence_epoch
    OR (NEW.fence_epoch = OLD.fence_epoch AND NEW.fence_claim IS NOT OLD.fence_claim)
BEGIN SELECT raise(FAIL, 'a sealed log never changes, a head or a fence never falls, an epoch has one claim'); END;

CREATE TRIGGER sealed_logs_end BEFORE INSERT ON events
WHEN (SELECT sealed FROM logs WHERE number = NEW.place >> 32)
BEGIN SELECT raise(FAIL, 'nothing follows the terminal event'); END;

CREATE TRIGGER events_stay BEFORE UPDATE ON events
BEGIN SELECT raise(ABORT, 'what was said stays said'); END;
