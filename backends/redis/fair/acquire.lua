-- SPDX-License-Identifier: Apache-2.0
-- Grants, queues or refuses. Repeating it is harmless: a holder gets its own token again, a waiter keeps its place.
-- -> {'granted'|'held', now, token, slot}  held: by an earlier request of the same owner
--    {'waiting', now, ahead, free_at, first, holder, record}  free_at: when time alone may open the key, 0: never; first: all ahead
--                                                             were told to run, so it is for this one to look at free_at
--    {'busy', now, free_at, holder, record}
local me, mode, meta, suffix = ARGV[1], ARGV[2], ARGV[8], ARGV[9]
local limit, ttl, delay, patience, claim = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local wait, my_wake = ARGV[10] == '1', KEYS[7]

local others = redis.call('ZCARD', queue) > 0
local ticket = others and redis.call('ZSCORE', queue, me)
local asked_for = mode .. '|' .. ARGV[3] .. '|' .. meta
if ticket then  -- who asks is alive, whatever the clock says
  redis.call('ZADD', alive, now + patience, me)
  redis.call('HSETNX', waiters, me, asked_for)
end
if others then expire_waiters() end
local tally, found, first = inside()

local mine = found[me]
if mine and mine.deadline > now then
  invite(tally, claim)
  return { 'held', digits(now), mine.token, mine.slot }
end

-- First come, first served without needless waiting: I may run if all ahead of me could run at the same time, in any order, and leave
-- room for me. So readers pass together, but never a writer that came first.
local would = { count = tally.count, exclusive = tally.exclusive, room = tally.room }
local rank, fits = 0, true
while others and fits do
  local owner, its_mode, its_limit = waiter_at(rank)
  if not owner or owner == me then break end
  fits = let_in(would, its_mode, its_limit)
  rank = rank + 1
end

if fits and admits(would, mode, limit) then
  local record = redis.call('GET', fence) or '0'
  local stored = string.match(record, '^(%d+)$') or string.match(record, '^(%d+) ')
  if not stored or tonumber(stored) >= 9007199254740991 then corrupt(fence) end
  local token = digits(math.max(tonumber(stored) + 1, now))
  local slot, taken = 0, {}
  if mode == 'P' then
    for _, h in pairs(found) do if h.mode == 'P' then taken[h.slot] = true end end
    while taken[slot] do slot = slot + 1 end
  end
  redis.call('SET', fence, token .. suffix, 'PX', fence_kept)
  -- My lapsed grant, whose lock-delay still runs, goes on counting beside the new one.
  if mine then redis.call('HSET', holders, me .. ':' .. mine.token, mine.record) end
  redis.call('HSET', holders, me, format_holder({ mode = mode, token = token, slot = slot, since = digits(now), deadline = now + ttl, delay = delay, granted = digits(now), meta = meta }))
  if tally.count == 0 then redis.call('PEXPIRE', holders, ms(ttl + delay)) else at_least(holders, ttl + delay) end
  if ticket then
    drop_waiter(me)
    redis.call('DEL', my_wake)
  end
  if others then
    add(tally, mode)
    invite(tally, claim)
  end
  return { 'granted', digits(now), token, slot }
end

local by, record = first and string.sub(first.owner, 1, 8) or '', first and first.record or ''
if not wait then return { 'busy', digits(now), instant(invite(tally, claim)), by, record } end

if not ticket then
  local last = redis.call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')[2]
  redis.call('ZADD', queue, last and tonumber(last) + 1 or 1, me)
  redis.call('ZADD', alive, now + patience, me)
  redis.call('HSET', waiters, me, asked_for)
elseif redis.call('SREM', called, me) == 1 then  -- it asked and could not run: whoever frees the key tells it again
  redis.call('DEL', my_wake)
end
for _, key in ipairs({ queue, alive, waiters }) do at_least(key, patience) end
local free_at = invite(tally, claim)
rank = redis.call('ZRANK', queue, me)
return { 'waiting', digits(now), rank, instant(free_at), rank <= redis.call('SCARD', called) and 1 or 0, by, record }
