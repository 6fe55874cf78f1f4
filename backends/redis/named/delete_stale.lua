-- SPDX-License-Identifier: Apache-2.0
-- A lock without an end that has not changed since it was looked at. ARGV[2]: give it an end (milliseconds), empty: remove it. -> 1 or 0
if value() ~= ARGV[1] or redis.call('PTTL', lock) ~= -1 then return 0 end
if ARGV[2] == '' then return redis.call('DEL', lock) end
return redis.call('PEXPIRE', lock, ARGV[2])
