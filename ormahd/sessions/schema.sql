-- What the files of the archive say, for searching; everything here may be deleted at any time.

CREATE TABLE session (
    number INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,  -- below the archive's folder
    id TEXT NOT NULL,
    harness TEXT NOT NULL,
    cwd TEXT,
    title TEXT,
    source TEXT,                -- the transcript or export that it came from
    first TEXT,                 -- ISO time of its first turn
    last TEXT,                  -- ISO time of its last turn
    turns INTEGER NOT NULL,
    size INTEGER NOT NULL,      -- bytes of the file that are taken in
    replaced INTEGER NOT NULL DEFAULT 0 -- 1: the file has texts of answers that have grown since
);
CREATE INDEX session_id ON session (id);

CREATE TABLE turn (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    session INTEGER NOT NULL,
    place INTEGER NOT NULL,     -- counted from 1 within its session, in the order in which turns came
    asked INTEGER NOT NULL,     -- place of the prompt that it answers; of a prompt its own place
    role TEXT NOT NULL,
    time TEXT,
    text TEXT,                  -- NULL: purged, and never to be taken in again
    withdrawn INTEGER NOT NULL DEFAULT 0, -- 1: the person took it back
    shared INTEGER NOT NULL DEFAULT 0     -- 1: another session (a fork) has it too, and did not take it back
);
CREATE INDEX turn_place ON turn (session, asked, place);

-- Contentless: a row is taken out with the text that it was put in with.
CREATE VIRTUAL TABLE words USING fts5 (text, content = '', tokenize = "{tokenize}");

-- What agents did: commands, and edits of files.
CREATE TABLE deed (
    number INTEGER PRIMARY KEY, -- in the order in which they came
    key TEXT NOT NULL UNIQUE,
    session INTEGER NOT NULL,
    prompt INTEGER,             -- number of the turn under which it was done
    time TEXT,
    tool TEXT,                  -- that edited files; NULL: a shell
    command TEXT,               -- NULL: purged, and never to be taken in again; '': an edit
    files TEXT,                 -- a path a line
    status INTEGER NOT NULL,    -- exit status; -1: failed without one
    error TEXT NOT NULL,        -- its first line
    seconds REAL
);
CREATE INDEX deed_prompt ON deed (prompt);
CREATE INDEX deed_session ON deed (session);
CREATE VIRTUAL TABLE deed_words USING fts5 (text, content = '', tokenize = "{tokenize}"); -- commands and errors

-- A source as it was when all of it had been taken in.
CREATE TABLE cursor (source TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL) WITHOUT ROWID;
