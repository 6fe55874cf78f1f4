-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), keys.lua (lock, queue), find_token.lua (the token in ARGV[2]),
-- note_run.lua (note_run).
-- The lease ends `ttl` from now, later or earlier than before. One that has ended is never revived.
-- One key, always.
-- The expiry is written first: Redis lets a script that has written go on when memory is full.
-- KEYS lock   ARGV owner, token, ttl, the longest it may be with the lock-delay ('': any), how the
-- job ended (detach)
-- -> {'kept', now, token, mode, slot, 1 if it was asked to stop, or 0}, {'lost', now} or {'longer',
--     now, lock-delay}, which has changed nothing
local found = call('HMGET', lock, ARGV[2], 'expires', 'revoke', 'last')
if not found[1] then return { 'lost', now } end
local owner, deadline, rest, mode, slot, delay =
  string.match(found[1], '^(%x*)|(%d+)|%d+(|([XSP])|(%d+)|(%d+)|%d+|.*)$')
local expires = tonumber(found[2])
if not owner or not expires then
  return redis.error_reply('DLOCKDATA ' .. lock .. ' is not a record of dlock')
end
if owner ~= ARGV[1] or tonumber(deadline) <= now then return { 'lost', now } end
if ARGV[4] and ARGV[4] ~= '' and ARGV[3] + delay > tonumber(ARGV[4]) then
  return { 'longer', now, delay }
end
local ends = now + tonumber(ARGV[3])
local record = owner .. '|' .. string.format('%.0f|%.0f', ends, now) .. rest
if expires - now > 7689600000000 and ends + delay - now < 7689600000000 then  -- 89 days
  call('PEXPIRE', lock, math.ceil((expires - now) / 1000) + 1000)
  call('HSET', lock, ARGV[2], record)
else
  local keep_until = math.max(expires, now + 7776000000000, ends + delay)  -- 90 days
  call('PEXPIRE', lock, math.ceil((keep_until - now) / 1000) + 1000)
  call('HSET', lock, ARGV[2], record, 'expires', string.format('%.0f', keep_until))
end
note_run(found[1], found[4], ARGV[5])
local marked = tonumber(string.match(found[3] or '', '^%d+')) or 0
return { 'kept', now, ARGV[2], mode, tonumber(slot), tonumber(ARGV[2]) <= marked and 1 or 0 }
