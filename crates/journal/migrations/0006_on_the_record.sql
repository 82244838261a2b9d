-- Indexes by session have a leaf of their own for each busy session, and a commit of many sessions would write them all. So each record
-- names the turn that it is in and the model request that it carries, and neither is looked for by session any more.

-- Where turns start, and the projections just before. Found through their records.
CREATE TABLE turns_of_records (
  id           INTEGER PRIMARY KEY,
  first_seq    INTEGER NOT NULL,
  execution_id TEXT NOT NULL,
  compute      INTEGER NOT NULL,
  exec         INTEGER NOT NULL,
  pending      BLOB,
  scan         BLOB NOT NULL
) STRICT;
INSERT INTO turns_of_records (id, first_seq, execution_id, compute, exec, pending, scan)
  SELECT rowid, first_seq, execution_id, compute, exec, pending, scan FROM turns ORDER BY rowid;

-- Of every request the record that carried it first, unless that one carries another already.
CREATE TABLE carried (
  session INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  request INTEGER NOT NULL UNIQUE,
  PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO carried (session, seq, request)
  SELECT session, seq, request
  FROM (SELECT session, seq, request, row_number() OVER (PARTITION BY request ORDER BY session, seq) AS place FROM request_refs)
  WHERE place = 1 ORDER BY request;

CREATE TABLE records_with_turns (
  id           INTEGER PRIMARY KEY,
  session      INTEGER NOT NULL,
  seq          INTEGER NOT NULL,
  prev_id      INTEGER NOT NULL,      -- the record before it in this session; 0 for the session's own first
  turn         INTEGER NOT NULL,      -- the last turn of this session that starts at or before it; 0 for none
  request      INTEGER,               -- the model request whose text was kept for this record
  fence        INTEGER NOT NULL,
  ts_ms        INTEGER NOT NULL,
  prev_hash    BLOB,                  -- NULL at seq 1
  content_hash BLOB NOT NULL,
  event        BLOB NOT NULL          -- canonical JSON, byte for byte what was hashed
) STRICT;
INSERT INTO records_with_turns (id, session, seq, prev_id, turn, request, fence, ts_ms, prev_hash, content_hash, event)
  SELECT r.id, r.session, r.seq, r.prev_id,
    coalesce((SELECT t.rowid FROM turns t WHERE t.session = r.session AND t.first_seq <= r.seq
              ORDER BY t.first_seq DESC LIMIT 1), 0),
    (SELECT c.request FROM carried c WHERE c.session = r.session AND c.seq = r.seq),
    r.fence, r.ts_ms, r.prev_hash, r.content_hash, r.event
  FROM records r ORDER BY r.id;

-- What a session that is being dropped has left without a record: its turns are nobody's, its requests are found as before.
DELETE FROM turns_of_records WHERE id NOT IN (SELECT turn FROM records_with_turns);
DELETE FROM carried WHERE request NOT IN (SELECT request FROM records_with_turns WHERE request IS NOT NULL);
DELETE FROM request_refs
  WHERE EXISTS (SELECT 1 FROM carried c WHERE c.request = request_refs.request AND c.session = request_refs.session);

CREATE TABLE requests_of_records (
  key    INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,
  size   INTEGER NOT NULL,            -- bytes of the text
  cost   INTEGER NOT NULL,            -- what reading it back takes: see delta.rs
  owner  INTEGER,                     -- the session with the record that it was kept for; NULL when that is gone
  base   INTEGER,
  prefix INTEGER NOT NULL,
  suffix INTEGER NOT NULL,
  middle BLOB NOT NULL
) STRICT;
INSERT INTO requests_of_records (key, digest, size, cost, owner, base, prefix, suffix, middle)
  SELECT key, digest, size, cost, (SELECT c.session FROM carried c WHERE c.request = requests.key),
    base, prefix, suffix, middle
  FROM requests ORDER BY key;

-- The result of a call is found behind it.
ALTER TABLE tool_keys DROP COLUMN result_seq;

DROP TABLE carried;
DROP TABLE turns;
DROP TABLE records;
DROP TABLE requests;
ALTER TABLE turns_of_records RENAME TO turns;
ALTER TABLE records_with_turns RENAME TO records;
ALTER TABLE requests_of_records RENAME TO requests;
CREATE INDEX requests_base ON requests (base) WHERE base IS NOT NULL;
