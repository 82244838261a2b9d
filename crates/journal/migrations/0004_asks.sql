-- The sessions that wait for a person: what heads.pending says, in the order in which they are listed.
CREATE TABLE asks (
  session     INTEGER PRIMARY KEY,
  uid         TEXT NOT NULL,
  project     TEXT NOT NULL,
  request_seq INTEGER NOT NULL,         -- the record that asks
  since_ns    INTEGER NOT NULL,         -- when it was committed
  deadline_ns INTEGER,                  -- when the wait expires; NULL for never
  announced   INTEGER NOT NULL          -- 1 once whoever is to be told was told
) STRICT;
CREATE INDEX asks_listed ON asks (since_ns, uid);
CREATE INDEX asks_listed_project ON asks (project, since_ns, uid);
CREATE INDEX asks_due ON asks (deadline_ns, uid) WHERE deadline_ns IS NOT NULL;
CREATE INDEX asks_untold ON asks (since_ns, uid) WHERE announced = 0;

-- Sessions that wait already. The record that asks is near the end of each: nothing of its turn follows it.
WITH RECURSIVE back (session, id) AS (
  SELECT session, last_id FROM heads WHERE pending IS NOT NULL AND last_id <> 0
  UNION ALL
  SELECT back.session, r.prev_id FROM back JOIN records r ON r.id = back.id
  WHERE substr(r.event, 1, 13) <> CAST('{"approval":{' AS BLOB) AND r.prev_id <> 0
)
INSERT INTO asks (session, uid, project, request_seq, since_ns, deadline_ns, announced)
  SELECT s.key, s.uid, s.project, r.seq, r.ts_ms * 1000000, NULL, 0
  FROM back JOIN records r ON r.id = back.id JOIN sessions s ON s.key = back.session
  WHERE s.life = 0 AND substr(r.event, 1, 13) = CAST('{"approval":{' AS BLOB);
