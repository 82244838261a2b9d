-- What the idempotency keys of a session were used for. Filled from the records when an older store is opened.
CREATE TABLE tool_keys (
  session    INTEGER NOT NULL,
  key        BLOB NOT NULL,           -- SHA-256 of the idempotency key
  call_seq   INTEGER NOT NULL,        -- of the first call that it let run
  result_seq INTEGER,                 -- of that call's result; NULL while there is none
  PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
