-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), state.lua (lock, value, record, belongs).
-- Compare and delete. ARGV[3]: microseconds per unit, if the value is the time at which the lock
-- ends: after that it is left for others to take over. -> 1 or 0
local v = value()
if not belongs(v, record(), ARGV[1], ARGV[2]) then return 0 end
if ARGV[3] and (tonumber(v) or 0) * ARGV[3] <= now then return 0 end
return redis.call('DEL', lock)
