-- Sessions: what was said at creation, and the lineage. Rows are never removed: a uid stays taken.
CREATE TABLE sessions (
  key       INTEGER PRIMARY KEY,
  uid       TEXT UNIQUE,              -- NULL for what is left of an import that did not finish
  life      INTEGER NOT NULL,         -- 0 live, 1 being imported, 2 deleted, 3 deleted and dropped
  project   TEXT NOT NULL,
  create_ns INTEGER NOT NULL,
  parent    INTEGER,                  -- key of the session it was forked from
  fork_seq  INTEGER NOT NULL,         -- the last seq that it shares with its parent
  reads_to  INTEGER NOT NULL,         -- the last seq of its parent that it or a child of it reads
  info      BLOB NOT NULL             -- agentsessions.v1.Session
) STRICT;
CREATE INDEX sessions_listed ON sessions (project, create_ns DESC, uid) WHERE life = 0;
CREATE INDEX sessions_children ON sessions (parent, reads_to) WHERE parent IS NOT NULL;

-- What moves with every append.
CREATE TABLE heads (
  session   INTEGER PRIMARY KEY,
  seq       INTEGER NOT NULL,
  hash      BLOB,                     -- NULL for an empty journal
  fence     INTEGER NOT NULL,
  update_ns INTEGER NOT NULL,
  compute   INTEGER NOT NULL,
  exec      INTEGER NOT NULL,
  pending   BLOB,                     -- agentsessions.v1.ApprovalRef
  scan      BLOB NOT NULL
) STRICT;

-- The records. In the order of their commits, so that a commit of many sessions writes few pages.
CREATE TABLE records (
  id           INTEGER PRIMARY KEY,
  session      INTEGER NOT NULL,
  seq          INTEGER NOT NULL,
  fence        INTEGER NOT NULL,
  ts_ms        INTEGER NOT NULL,
  prev_hash    BLOB,                  -- NULL at seq 1
  content_hash BLOB NOT NULL,
  event        BLOB NOT NULL,         -- canonical JSON, byte for byte what was hashed
  UNIQUE (session, seq)
) STRICT;

-- Where turns start, and the projections just before.
CREATE TABLE turns (
  session      INTEGER NOT NULL,
  first_seq    INTEGER NOT NULL,
  execution_id TEXT NOT NULL,
  compute      INTEGER NOT NULL,
  exec         INTEGER NOT NULL,
  pending      BLOB,
  scan         BLOB NOT NULL,
  UNIQUE (session, first_seq)
) STRICT;

-- Texts of model requests: a full text (base is NULL) or what is between the bytes that it shares
-- with the start and with the end of its base.
CREATE TABLE requests (
  key    INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,
  size   INTEGER NOT NULL,            -- bytes of the text
  cost   INTEGER NOT NULL,            -- what reading it back takes: see delta.rs
  base   INTEGER,
  prefix INTEGER NOT NULL,
  suffix INTEGER NOT NULL,
  middle BLOB NOT NULL
) STRICT;
CREATE INDEX requests_base ON requests (base) WHERE base IS NOT NULL;
CREATE TABLE request_refs (
  session INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  request INTEGER NOT NULL,
  PRIMARY KEY (session, seq, request)
) STRICT, WITHOUT ROWID;
CREATE INDEX request_refs_request ON request_refs (request);

-- Which records name which payloads.
CREATE TABLE blob_refs (
  session INTEGER NOT NULL,
  digest  BLOB NOT NULL,
  seq     INTEGER NOT NULL,
  PRIMARY KEY (session, digest, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_refs_digest ON blob_refs (digest);

-- Work that a crash must not lose: payloads without a record, deleted sessions that still hold
-- records, imports that are not finished.
CREATE TABLE orphans (digest BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE trash (session INTEGER PRIMARY KEY) STRICT;
CREATE TABLE imports (session INTEGER PRIMARY KEY) STRICT;
