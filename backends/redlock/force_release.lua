-- SPDX-License-Identifier: Apache-2.0
-- Behind state.lua (lock, id, now, value, digits, wake).
-- Removes the value that was seen here, and nothing newer: a string of this value, or any value of
-- another type.
-- ARGV: request, type, value -> {request, now, 1 or 0}
local v, kind = value()
if kind ~= ARGV[2] or v ~= ARGV[3] then return { id, digits(now), 0 } end
local removed = redis.call('DEL', lock)
if removed == 1 then wake() end
return { id, digits(now), removed }
