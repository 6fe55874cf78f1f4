-- SPDX-License-Identifier: Apache-2.0
CREATE TABLE IF NOT EXISTS dlock_advisory (
  name text COLLATE "C" NOT NULL PRIMARY KEY,
  fence bigint NOT NULL,
  owner text NOT NULL,
  granted bigint NOT NULL,
  ttl bigint NOT NULL,
  who text NOT NULL) WITH (fillfactor=50, autovacuum_vacuum_scale_factor=0)
