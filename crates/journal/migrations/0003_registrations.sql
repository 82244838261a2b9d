-- Harnesses by name. A row stays, its spec never changes, and retiring it is a mark.
CREATE TABLE registrations (
  name          TEXT PRIMARY KEY,
  uid           TEXT NOT NULL UNIQUE,
  spec          BLOB NOT NULL,        -- canonical JSON of agentsessions.v1.HarnessSpec, byte for byte what was digested
  digest        BLOB NOT NULL,        -- SHA-256 of it
  create_ns     INTEGER NOT NULL,
  update_ns     INTEGER NOT NULL,
  retire_ns     INTEGER,              -- NULL while it is active
  retire_reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;
