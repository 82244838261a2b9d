-- An index over all records has a leaf of its own for each busy session, and a commit of many sessions
-- would write them all. So each record names the row of the one before it in its session, and only some
-- are found by number.
CREATE TABLE records_linked (
  id           INTEGER PRIMARY KEY,
  session      INTEGER NOT NULL,
  seq          INTEGER NOT NULL,
  prev_id      INTEGER NOT NULL,      -- the record before it in this session; 0 for the session's own first
  fence        INTEGER NOT NULL,
  ts_ms        INTEGER NOT NULL,
  prev_hash    BLOB,                  -- NULL at seq 1
  content_hash BLOB NOT NULL,
  event        BLOB NOT NULL          -- canonical JSON, byte for byte what was hashed
) STRICT;
INSERT INTO records_linked (id, session, seq, prev_id, fence, ts_ms, prev_hash, content_hash, event)
  SELECT r.id, r.session, r.seq, coalesce(p.id, 0), r.fence, r.ts_ms, r.prev_hash, r.content_hash, r.event
  FROM records r LEFT JOIN records p ON p.session = r.session AND p.seq = r.seq - 1
  ORDER BY r.id;

-- Every 32nd record of a session.
CREATE TABLE landmarks (
  session INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  id      INTEGER NOT NULL,           -- of the record
  PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO landmarks (session, seq, id)
  SELECT session, seq, id FROM records WHERE seq % 32 = 0 ORDER BY session, seq;

-- The last record that a session itself holds; 0 when there is none.
ALTER TABLE heads ADD COLUMN last_id INTEGER NOT NULL DEFAULT 0;
UPDATE heads SET last_id = coalesce(
  (SELECT id FROM records WHERE records.session = heads.session ORDER BY seq DESC LIMIT 1), 0);

DROP TABLE records;
ALTER TABLE records_linked RENAME TO records;
