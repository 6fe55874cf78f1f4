-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), keys.lua (lock, queue).
-- Grants, queues or refuses. May be repeated: a holder gets its own token again, a waiter keeps its
-- place.
-- KEYS lock [queue]
-- ARGV owner, mode X|S|P, limit, ttl, delay, patience, claim, meta, suffix of the fence record,
--      wait 1|0, asked before 1|0, queue only 1|0
--        queue only: this server may have forgotten holders; no grant, a place in the queue
-- -> {'granted'|'held', now, token, slot}      held: by an earlier request of the same owner
--    {'waiting', now, ahead, free_at, first, holder}
--        free_at: when time alone may open the key, 0: never; first: all ahead were invited, so
--        this one must watch free_at; holder: '' or one of those in the way
--    {'busy', now, free_at, holder}
--    {'later', now, free_at, holder}           no queue was given, and one is needed
--
-- This file is the fast path: no holder and no waiters. One read, one write, before anything else
-- is even defined.
local me, mode, meta = ARGV[1], ARGV[2], ARGV[8]
local ttl, delay = tonumber(ARGV[4]), tonumber(ARGV[5])

local all = call('HGETALL', lock)
local fence, version, wait_until, expires = '0', all[1] and '' or '1', 0, 0
local taken, marked = false, false
for i = 1, #all, 2 do
  local name = all[i]
  if name == 'version' then version = all[i + 1]
  elseif name == 'fence' then fence = all[i + 1]
  elseif name == 'expires' then expires = tonumber(all[i + 1])
  elseif name == 'wait' then wait_until = tonumber(all[i + 1])
  elseif name == 'revoke' then marked = true
  elseif name ~= 'start' and name ~= 'last' then taken = true end
end
local newest = tonumber(fence) or tonumber(string.match(fence, '^(%d+) ') or '')
if version ~= '1' and version ~= '' then
  return redis.error_reply(
    'DLOCKLAYOUT ' .. lock .. ' has layout ' .. version .. ', and this dlock knows layout 1')
end
if version == '' or not newest or newest >= 9007199254740991 or not expires or not wait_until then
  return redis.error_reply('DLOCKDATA ' .. lock .. ' is not a record of dlock')
end

if not taken and wait_until <= now and ARGV[11] == '0' and ARGV[12] ~= '1'
  and expires - now > 7689600000000 and ttl + delay < 7689600000000 then  -- 89 days
  local stamp = string.format('%.0f', now)
  local token = newest < now and stamp or string.format('%.0f', newest + 1)
  call('HSET', lock, 'fence', token .. ARGV[9], token,
    me .. '|' .. string.format('%.0f', now + ttl) .. '|' .. stamp .. '|' .. mode .. '|0|' .. ARGV[5]
      .. '|' .. stamp .. '|' .. meta)
  if marked then call('HDEL', lock, 'revoke') end  -- no grant that it names is left
  return { 'granted', now, token, 0 }
end
