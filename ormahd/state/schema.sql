-- state.sqlite3: telemetry of recent days, and no memories. Times are ISO, in UTC.

CREATE TABLE access (
    id INTEGER PRIMARY KEY,
    node_id TEXT NOT NULL,
    time TEXT NOT NULL,
    how TEXT NOT NULL,          -- recall, whisper, get, feedback
    session_id TEXT,
    run TEXT                    -- the run whose commit is to hold it: after a crash that commit says whether it does
);
CREATE INDEX access_node ON access (node_id);
CREATE TABLE answer (
    request_id TEXT PRIMARY KEY,
    method TEXT NOT NULL,
    params TEXT NOT NULL,       -- digest of the parameters: the same id for another wish is an error
    time TEXT NOT NULL,
    reply BLOB                  -- NULL until it is answered
) WITHOUT ROWID;

CREATE TABLE whisper_event (    -- one row a prompt, silent ones too
    event TEXT PRIMARY KEY,
    time TEXT NOT NULL,
    session_id TEXT,
    agent TEXT NOT NULL,
    space TEXT,
    outcome TEXT NOT NULL,      -- injected, or the silence's reason
    milliseconds REAL NOT NULL,
    prompt TEXT NOT NULL,       -- redacted
    vector BLOB,                -- float32, unit
    model TEXT
);
CREATE INDEX whisper_event_time ON whisper_event (time, space);
CREATE TABLE whisper_log (      -- its candidates, injected or held back
    id INTEGER PRIMARY KEY,
    event TEXT NOT NULL REFERENCES whisper_event (event) ON DELETE CASCADE,
    node_id TEXT NOT NULL,
    relevance REAL NOT NULL,    -- before feedback's boost
    boosted REAL NOT NULL,
    was_injected INTEGER NOT NULL,
    shown TEXT,                 -- full, title, preference, exploring; null: held back
    used INTEGER NOT NULL DEFAULT 0, -- a judgement or the reply said it was of use: counted once
    heeded INTEGER NOT NULL DEFAULT 0 -- 1: the agent's reply shows that it was used
);
CREATE INDEX whisper_log_node ON whisper_log (node_id, id);
-- what the review loop asks, without reading prompts and vectors: a week of 3,000 prompts takes 9 ms instead of 30
CREATE INDEX whisper_log_event ON whisper_log (event, node_id, shown, relevance);
CREATE TABLE review_log (
    id INTEGER PRIMARY KEY,
    node_id TEXT NOT NULL,
    event TEXT NOT NULL,        -- the earlier whisper in which it was held back
    surfaced_in TEXT NOT NULL,  -- the whisper that asked
    time TEXT NOT NULL,
    answered TEXT               -- when, or null
);
CREATE INDEX review_log_node ON review_log (node_id);
CREATE TABLE session (
    session_id TEXT PRIMARY KEY,
    prompts INTEGER NOT NULL,
    last TEXT NOT NULL,
    holds TEXT NOT NULL         -- JSON: {node id: how its context holds it}
) WITHOUT ROWID;
CREATE TABLE session_prompt (
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES session (session_id) ON DELETE CASCADE,
    time TEXT NOT NULL,
    prompt TEXT NOT NULL,       -- redacted
    vector BLOB,
    model TEXT,
    answered INTEGER NOT NULL
);
CREATE INDEX session_prompt_session ON session_prompt (session_id, id);

CREATE TABLE job_run (
    run TEXT NOT NULL,
    job TEXT NOT NULL,
    begun TEXT NOT NULL,
    ended TEXT,                 -- null: under way, or the daemon ended meanwhile
    error TEXT,
    proposals INTEGER NOT NULL DEFAULT 0,
    applied INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    commits TEXT NOT NULL DEFAULT '[]',
    milliseconds REAL,
    PRIMARY KEY (run, job)
) WITHOUT ROWID;
CREATE INDEX job_run_job ON job_run (job, begun);
CREATE TABLE job_pause (
    job TEXT PRIMARY KEY,
    since TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE verdict (
    question TEXT NOT NULL,
    texts TEXT NOT NULL,        -- sha256 of each text, sorted
    verdict TEXT NOT NULL,      -- JSON
    time TEXT NOT NULL,
    PRIMARY KEY (question, texts)
) WITHOUT ROWID;
CREATE TABLE looked (
    job TEXT NOT NULL,
    node_id TEXT NOT NULL,
    text TEXT NOT NULL,         -- sha256 of the text that was looked at
    PRIMARY KEY (job, node_id)
) WITHOUT ROWID;
CREATE TABLE proposal (
    id TEXT PRIMARY KEY,
    type TEXT NOT NULL,         -- merge, conflict, decay
    status TEXT NOT NULL,       -- pending, approved, rejected, stale
    key TEXT NOT NULL UNIQUE,   -- type, nodes and texts: the same thing is never proposed twice
    source_nodes TEXT NOT NULL, -- JSON list of ids
    proposed_action TEXT NOT NULL,
    reason TEXT NOT NULL,
    preview TEXT NOT NULL,
    evidence TEXT NOT NULL,     -- JSON
    payload TEXT NOT NULL,      -- JSON, for the job that applies it
    run TEXT NOT NULL,
    created TEXT NOT NULL,
    resolved TEXT,
    op TEXT                     -- of the commit that came of it
);
CREATE INDEX proposal_status ON proposal (status, created);
CREATE TABLE receipt (          -- two-phase maintenance: what was handed out
    id TEXT PRIMARY KEY,
    time TEXT NOT NULL,
    expires TEXT NOT NULL,
    issued TEXT NOT NULL,       -- JSON: which ids, in which batch, with the sha256 of their texts
    settled TEXT                -- when the results came
) WITHOUT ROWID;

CREATE TABLE active_day (       -- on which something was asked; a job folds them into the vault
    day TEXT PRIMARY KEY        -- ISO date, UTC
) WITHOUT ROWID;

CREATE TABLE session_place (    -- where each session began
    session_id TEXT PRIMARY KEY,
    folder TEXT NOT NULL,
    time TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE judge_day (        -- what the judge cost
    day TEXT PRIMARY KEY,       -- ISO date, UTC
    calls INTEGER NOT NULL,
    tokens INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE judge_trouble (    -- what is wrong with it
    kind TEXT PRIMARY KEY,      -- down, rude, budget
    since TEXT NOT NULL,
    last TEXT NOT NULL,
    reason TEXT NOT NULL,
    times INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE judge_mark (
    name TEXT PRIMARY KEY,      -- who: what it is; answered: when it last gave a usable answer
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE source_mark (      -- what holds for a source now
    source TEXT NOT NULL,       -- hook, watcher, backfill, ingest, sources
    name TEXT NOT NULL,         -- came; troubles; for a backfill its progress; for sources the files that were moved
    value TEXT NOT NULL,        -- JSON
    PRIMARY KEY (source, name)
) WITHOUT ROWID;

CREATE TABLE extraction (       -- how far each session was read for memories
    session TEXT NOT NULL,      -- its file in the archive
    way TEXT NOT NULL,          -- rules, model
    until TEXT NOT NULL,        -- JSON: keys of the last turns that were read, the last one first
    time TEXT NOT NULL,
    tries INTEGER NOT NULL,     -- failures in a row
    error TEXT,                 -- why the last try failed
    PRIMARY KEY (session, way)
) WITHOUT ROWID;
CREATE TABLE extracted (        -- memories that were made: of one that is gone without an op of ours a tombstone is written
    node_id TEXT PRIMARY KEY,
    turn TEXT NOT NULL          -- the key of the turn that said it
) WITHOUT ROWID;
