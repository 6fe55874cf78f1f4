-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), state.lua (lock, value).
-- A lock without expiry that has not changed since it was read. ARGV[2]: set its expiry
-- (milliseconds), empty: remove it. -> 1 or 0
if value() ~= ARGV[1] or redis.call('PTTL', lock) ~= -1 then return 0 end
if ARGV[2] == '' then return redis.call('DEL', lock) end
return redis.call('PEXPIRE', lock, ARGV[2])
