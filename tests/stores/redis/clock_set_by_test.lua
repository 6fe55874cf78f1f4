-- SPDX-License-Identifier: Apache-2.0
--- clock
-- In place of that of backends/redis/fair/state.lua: a clock set by the test, so that every edge of
-- a deadline can be met exactly.
local call = redis.call
local now = tonumber(call('GET', 'test-clock'))
