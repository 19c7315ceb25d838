-- The index: everything here is derived from the vault and may be deleted at any time.
--
-- `number` is a file's key: its rows in node, text, name, tag, edge and words carry the same one.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE file (
    number INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    digest TEXT NOT NULL,       -- sha256 of the file as it lies on the disk
    kind TEXT NOT NULL,         -- NoteKind
    node_id TEXT,               -- the id that the file claims; several files may claim one
    blob TEXT NOT NULL          -- git's id of the bytes that were read: what differs from a commit is known without reading
);
CREATE INDEX file_node ON file (node_id) WHERE node_id IS NOT NULL;

-- What a file says, as text: of nodes the body, of other files all of it.
CREATE TABLE text (number INTEGER PRIMARY KEY, content TEXT NOT NULL);

-- Narrow, because filters walk it; the body is in `text`.
CREATE TABLE node (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    held INTEGER NOT NULL,      -- 1: this file is the node; 0: another file with this id came first, this one is plain text
    tier TEXT NOT NULL,
    type TEXT NOT NULL,
    space TEXT,
    created INTEGER NOT NULL,   -- microseconds since 1970, UTC, like all times here
    valid_until INTEGER,
    updated INTEGER NOT NULL,
    confidence REAL NOT NULL,
    source TEXT NOT NULL,
    title TEXT,
    tags TEXT NOT NULL,         -- JSON
    aliases TEXT NOT NULL,      -- JSON
    outdated_reason TEXT,
    digest TEXT NOT NULL,       -- sha256 of the bytes this row was read from
    said_in TEXT,               -- session#turn that it was extracted from
    acts TEXT,                  -- JSON, `rows.Acts`: what the note says of actions; null for most
    same INTEGER NOT NULL       -- hash of space, type, title and content: finds equal memories
);
CREATE UNIQUE INDEX node_held ON node (id) WHERE held = 1;
-- with source and `held`, so that it covers counts: 25 ms instead of 290 of 100,000 notes
CREATE INDEX node_filter ON node (tier, type, space, created, valid_until, id, source, held) WHERE held = 1;
CREATE INDEX node_until ON node (valid_until, id) WHERE held = 1 AND valid_until IS NOT NULL;
CREATE INDEX node_created ON node (created) WHERE held = 1;
CREATE INDEX node_acts ON node (space) WHERE held = 1 AND acts IS NOT NULL;
CREATE INDEX node_same ON node (same) WHERE held = 1;
CREATE INDEX node_said_in ON node (said_in) WHERE held = 1 AND said_in IS NOT NULL;

CREATE TABLE tag (tag TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (tag, number)) WITHOUT ROWID;
CREATE INDEX tag_number ON tag (number);

-- Under which names a wikilink finds a node, folded. rank: 1 file name, 2 alias, 3 title; the id needs no row.
CREATE TABLE name (
    key TEXT NOT NULL, rank INTEGER NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (key, rank, number)
) WITHOUT ROWID;
CREATE INDEX name_number ON name (number);

-- Edges as written, owned by the note that writes them; `target` is what the text leads to today.
CREATE TABLE edge (
    edge INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,    -- of the note that writes it
    type TEXT NOT NULL,
    text TEXT NOT NULL,
    short TEXT,                 -- the short id at the end of the text, folded
    file TEXT NOT NULL,         -- last part of the text, folded
    whole TEXT NOT NULL,        -- the text, folded
    weight REAL NOT NULL,
    created INTEGER,
    reason TEXT,
    body INTEGER NOT NULL,
    target TEXT                 -- node id, or null: unresolved
);
CREATE INDEX edge_number ON edge (number);
CREATE INDEX edge_target ON edge (target) WHERE target IS NOT NULL;
CREATE INDEX edge_short ON edge (short) WHERE short IS NOT NULL;
CREATE INDEX edge_file ON edge (file);
CREATE INDEX edge_whole ON edge (whole) WHERE whole <> file;

-- Columns and weights are positional: `text.WEIGHTS` has one weight for each of these, and a test holds it.
CREATE VIRTUAL TABLE words USING fts5 (
    title, content, tags,
    forms,  -- parts of identifiers, initials, names: `text/forms.py`
    tokenize = "{tokenize}"
);
CREATE VIRTUAL TABLE words_term USING fts5vocab (words, row);  -- for terms by their beginning, and for `verify`

-- Embeddings are kept by content: a note that moves, or comes back, is not embedded again.
CREATE TABLE model (model INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE);
CREATE TABLE document (
    document INTEGER PRIMARY KEY,
    model INTEGER NOT NULL,
    sha BLOB NOT NULL,          -- sha256 of the embedded text
    pieces INTEGER NOT NULL,
    free INTEGER,               -- since when no note has this text
    UNIQUE (model, sha)
);
CREATE INDEX document_free ON document (free) WHERE free IS NOT NULL;
-- key: document << 16 | piece
CREATE TABLE vector (key INTEGER PRIMARY KEY, vector BLOB NOT NULL);                        -- float16
CREATE TABLE token (key INTEGER PRIMARY KEY, ids BLOB NOT NULL, vectors BLOB NOT NULL);     -- uint32, two 4-bit codes a byte
CREATE TABLE embedded (
    model INTEGER NOT NULL, id TEXT NOT NULL, document INTEGER NOT NULL, PRIMARY KEY (model, id)
) WITHOUT ROWID;
CREATE INDEX embedded_document ON embedded (document);

-- Where memories stand in pictures of the graph, in thousandths: `layout.py`. Not derived from the notes alone: what was
-- there first keeps its place.
CREATE TABLE position (id TEXT PRIMARY KEY, x INTEGER NOT NULL, y INTEGER NOT NULL) WITHOUT ROWID;

-- The commits of HEAD's history: `history.py`. `number` is a commit's key: its rows in op_file and undoes carry the same one.
CREATE TABLE op (
    number INTEGER PRIMARY KEY,
    commit_id TEXT NOT NULL UNIQUE,
    op_id TEXT,                 -- null, like kind and run: a commit made by hand
    place INTEGER NOT NULL,     -- microseconds; the commit's time, but always after its parents: the order of lists
    time INTEGER NOT NULL,      -- seconds
    kind TEXT,
    source TEXT NOT NULL,
    run TEXT,
    merges INTEGER NOT NULL,    -- 1: it has several parents
    nodes TEXT NOT NULL,        -- the ids that its message names, in its order, with spaces between them
    subject TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX op_op_id ON op (op_id) WHERE op_id IS NOT NULL;
CREATE INDEX op_place ON op (place, commit_id);

-- A file that a commit changed against its first parent. A path of '': the message names the note, and no file of it changed.
CREATE TABLE op_file (
    number INTEGER NOT NULL,
    path TEXT NOT NULL,
    was TEXT,                   -- the id of the note in `old`
    node TEXT,                  -- the id of the note in `new`
    old TEXT,                   -- git's id of the file before and after the commit; null: no file
    new TEXT
);
CREATE INDEX op_file_number ON op_file (number);
CREATE INDEX op_file_path ON op_file (path);
CREATE INDEX op_file_was ON op_file (was) WHERE was IS NOT NULL;
CREATE INDEX op_file_node ON op_file (node) WHERE node IS NOT NULL;
CREATE INDEX op_file_new ON op_file (new) WHERE new IS NOT NULL;

CREATE TABLE undoes (number INTEGER NOT NULL, target TEXT NOT NULL);  -- target: an op or a commit
CREATE INDEX undoes_number ON undoes (number);
