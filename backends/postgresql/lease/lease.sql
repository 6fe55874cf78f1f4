-- SPDX-License-Identifier: Apache-2.0
CREATE TABLE IF NOT EXISTS dlock_lock (
  name text COLLATE "C" NOT NULL PRIMARY KEY,
  version bigint NOT NULL,
  fence bigint NOT NULL,
  state text NOT NULL,
  updated bigint NOT NULL,
  started bigint NULL,
  started_until bigint NULL,
  layout smallint NOT NULL DEFAULT 1,
  revoked bigint NOT NULL DEFAULT 0,
  last_run text NOT NULL DEFAULT '') WITH (fillfactor=50, autovacuum_vacuum_scale_factor=0);
CREATE TABLE IF NOT EXISTS dlock_wait (
  name text COLLATE "C" NOT NULL,
  ticket bigint GENERATED ALWAYS AS IDENTITY (START WITH 7236279150174208000),
  owner text COLLATE "C" NOT NULL,
  mode text COLLATE "C" NOT NULL,
  permits bigint NOT NULL,
  live bigint NOT NULL,
  since bigint NOT NULL,
  who text NOT NULL,
  PRIMARY KEY (name, ticket),
  UNIQUE (name, owner)) WITH (autovacuum_vacuum_scale_factor=0);
CREATE OR REPLACE VIEW dlock AS SELECT name, fence AS token, state LIKE '%_H %' AS held,
  (SELECT count(*) FROM dlock_wait w WHERE w.name=l.name) AS waiting,
  to_timestamp(updated/1e6) AS changed, state FROM dlock_lock l
