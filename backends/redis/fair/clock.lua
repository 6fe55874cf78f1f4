-- SPDX-License-Identifier: Apache-2.0
-- The server's clock in microseconds, the only clock that decides anything. In a separate file so
-- that a test can replace it.
local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
