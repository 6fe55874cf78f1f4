-- SPDX-License-Identifier: Apache-2.0
-- Script acquire: first the fast path, then the rest, which needs the piece `state`.

--- acquire_free: keys
-- Grants, queues or refuses. It may be repeated: a holder gets its own token again, and a waiter
-- keeps its place.
-- KEYS lock [queue]
-- ARGV owner, mode X|S|P, limit, ttl, delay, patience, claim, meta, suffix of the fence record,
--      wait 1|0, asked before 1|0, queue only 1|0
--        queue only: this server may have forgotten holders, so no grant, only a place in the queue
-- -> {'granted'|'held', now, token, slot}      held: by an earlier request of the same owner
--    {'waiting', now, ahead, free_at, first, holder}
--        free_at: when time alone may free the key, 0: never; first: 1 if all waiters ahead were
--        invited, so that this waiter must poll at free_at; holder: the oldest one, or ''
--    {'busy', now, free_at, holder}
--    {'later', now, free_at, holder}           the queue is needed, but was not given
--
-- The fast path, for a key without holders and waiters: one read and one write, before state is
-- defined.
local me, mode, meta = ARGV[1], ARGV[2], ARGV[8]
local ttl, delay = tonumber(ARGV[4]), tonumber(ARGV[5])

local all = call('HGETALL', lock)
local fence, version, wait_until, expires = '0', all[1] and '' or '1', 0, 0
local held, marked = false, false
for i = 1, #all, 2 do
  local name = all[i]
  if name == 'version' then version = all[i + 1]
  elseif name == 'fence' then fence = all[i + 1]
  elseif name == 'expires' then expires = tonumber(all[i + 1])
  elseif name == 'wait' then wait_until = tonumber(all[i + 1])
  elseif name == 'revoke' then marked = true
  elseif name ~= 'start' and name ~= 'last' then held = true end
end
local newest = tonumber(fence) or tonumber(string.match(fence, '^(%d+) ') or '')
if version ~= '1' and version ~= '' then return other_layout(version) end
if version == '' or not newest or newest >= 9007199254740991 or not expires or not wait_until then
  return no_record()
end

if not held and wait_until <= now and ARGV[11] == '0' and ARGV[12] ~= '1'
  and expires - now > 7689600000000 and ttl + delay < 7689600000000 then  -- 89 days
  local stamp = string.format('%.0f', now)
  local token = newest < now and stamp or string.format('%.0f', newest + 1)
  call('HSET', lock, 'fence', token .. ARGV[9], token,
    me .. '|' .. string.format('%.0f', now + ttl) .. '|' .. stamp .. '|' .. mode .. '|0|' .. ARGV[5]
      .. '|' .. stamp .. '|' .. meta)
  if marked then call('HDEL', lock, 'revoke') end  -- no grant that it names is left
  return { 'granted', now, token, 0 }
end

--- acquire: acquire_free state
-- Runs if the key has a holder, or has or may have waiters.
local limit, patience, claim = tonumber(ARGV[3]), tonumber(ARGV[6]), tonumber(ARGV[7])
local queue_only = ARGV[12] == '1'
if queue_only then claim = nil end  -- nobody may run, so nobody is woken
local checks_queue = queue and (ARGV[11] == '1' or wait_until > now)
local request = me .. '|' .. mode .. '|' .. ARGV[3] .. '|' .. meta
local ticket = checks_queue and call('ZSCORE', queue, request)
-- the request proves that its owner lives, whatever the clock says
if ticket then call('ZADD', queue, mark(now + patience, false), 'l' .. ticket) end
if checks_queue then expire_waiters() end
local tally, holders, first, top = inside(all)
newest = math.max(newest, top)

-- The queue's key must live as long as it may have members.
local function wait_at_least(t, new_key)
  if wait_until >= t and not new_key then return end
  wait_until = t + patience  -- so that not every refresh writes it
  call('HSET', lock, 'version', '1', 'wait', digits(wait_until))
  call('PEXPIRE', queue, ms(wait_until - now))
  if expires < wait_until then call('PEXPIRE', lock, ms(wait_until - now)) end
end
local function invite_others()
  if not checks_queue then return tally.free_at, 0 end
  local free_at, stopped = invite(tally, claim)
  if wait_until > 0 and not waiter_at(0) then
    call('HDEL', lock, 'wait')
    wait_until = 0
  end
  return free_at, stopped
end

for _, h in ipairs(holders) do
  if h.owner == me and h.deadline > now then
    if ticket then drop(ticket) end
    invite_others()
    return { 'held', now, h.token, h.slot }
  end
end

-- Waiters are served in the order of their arrival, but none waits needlessly: this owner may run
-- if all waiters ahead of it could hold at the same time, in any order, and leave room for it. So
-- readers run together, but never before an earlier writer.
local would = { count = tally.count, exclusive = tally.exclusive, room = tally.room }
local rank, fits = 0, not queue_only and (queue or wait_until <= now)
while checks_queue and fits do
  local w = waiter_at(rank)
  if not w or w.owner == me then break end
  fits = let_in(would, w.mode, w.limit)
  rank = rank + 1
end

if fits and admits(would, mode, limit) then
  local token = digits(math.max(newest + 1, now))
  local slot, used = 0, {}
  if mode == 'P' then
    for _, h in ipairs(holders) do if h.mode == 'P' then used[h.slot] = true end end
    while used[slot] do slot = slot + 1 end
  end
  local stamp = digits(now)
  local record =
    table.concat({ me, digits(now + ttl), stamp, mode, slot, ARGV[5], stamp, meta }, '|')
  if expires - now > 7689600000000 and ttl + delay < 7689600000000 then  -- 89 days
    call('HSET', lock, 'fence', token .. ARGV[9], token, record)
  else
    local keep_until = math.max(expires, now + 7776000000000, now + ttl + delay)  -- 90 days
    call('HSET', lock, 'version', '1', 'fence', token .. ARGV[9], 'expires', digits(keep_until),
      token, record)
    call('PEXPIRE', lock, ms(keep_until - now))
  end
  -- no grant that the mark names is left
  if marked and tally.count == 0 then call('HDEL', lock, 'revoke') end
  if ticket then drop(ticket) end
  add(tally, mode)
  invite_others()
  return { 'granted', now, token, slot }
end

local holder = shown(first)
if not queue then return { 'later', now, instant(tally.free_at), holder } end
if ARGV[10] ~= '1' then return { 'busy', now, instant(invite_others()), holder } end

-- The lock's field `wait` says that there is no waiter. But it may have been lost, so look at the
-- queue.
if not checks_queue then
  checks_queue = true
  expire_waiters()
  ticket = size > 0 and call('ZSCORE', queue, request)
end
local last = true
if not ticket then
  last = size > 0
    and call('ZREVRANGEBYSCORE', queue, border, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  ticket = digits((tonumber(last) or 0) + 1)
  size = size + call('ZADD', queue, ticket, request, mark(now + patience, false), 'l' .. ticket)
end
wait_at_least(now + patience, not last)
local free_at, stopped = invite_others()
rank = call('ZRANK', queue, request)
return { 'waiting', now, rank, instant(free_at), rank <= stopped and 1 or 0, holder }
