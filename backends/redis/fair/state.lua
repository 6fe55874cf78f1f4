-- SPDX-License-Identifier: Apache-2.0
-- LockState of src/core/lock_state.cpp, kept in Redis; put before every operation.
--
--   holders  HASH  owner -> mode|token|slot|since|deadline|delay|granted|meta  who is inside, or still keeps others out by its lock-delay;
--                                                                 since: granted or renewed last
--   queue    ZSET  owner -> ticket                                         who waits, in order of arrival
--   alive    ZSET  owner -> live_until                                     a waiter that is silent for longer is dropped
--   waiters  HASH  owner -> mode|limit|meta                                what it asked for
--   called   SET   owner                                                   told that it may run, and has not asked again yet
--   fence    STR   newest token; after a space the full key, if the name in the store is not one
--   wake:<owner>  LIST  where that waiter, and nobody else, listens
--   started  STR   when the newest job was started (--once-per); with an expiry of its own
--
-- Instants are microseconds of the server's clock. A double holds them exactly until the year 2255. No decision rests on the
-- expiry of a Redis key: that only clears away what nobody came back for. Exclusion rests on `holders` and `fence` alone, so losing one of the
-- other keys costs a place in the queue, never a double grant.
local holders, queue, alive, waiters, called, fence = unpack(KEYS)
local now = clock()
local fence_kept = 90 * 86400 * 1000  -- ms after the last grant or renewal

local function digits(n) return string.format('%.0f', n) end  -- tostring() keeps only 14 of them

local function instant(t) return t < math.huge and digits(t) or '0' end  -- '0': never

-- Not a record of ours: nothing is decided on a guess.
local function corrupt(what) error('DLOCKDATA ' .. what .. ' is not a record of dlock') end

-- Milliseconds for PEXPIRE: a key outlives what is in it.
local function ms(span) return math.ceil(span / 1000) + 1000 end
local function at_least(key, span)
  if redis.call('PTTL', key) < ms(span) then redis.call('PEXPIRE', key, ms(span)) end
end

local function parse_holder(record)
  local mode, token, slot, since, deadline, delay, granted, meta =
    string.match(record, '^([XSP])|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(.*)$')
  if not mode then corrupt(holders) end
  local h = { mode = mode, token = token, slot = tonumber(slot), since = since, deadline = tonumber(deadline), delay = tonumber(delay),
    granted = granted, meta = meta }
  h.free_at = h.deadline + h.delay
  return h
end

local function format_holder(h)
  return table.concat({ h.mode, h.token, h.slot, h.since, digits(h.deadline), digits(h.delay), h.granted, h.meta }, '|')
end

-- Who is, or would be, inside at the same time. `room`: the smallest limit of those who came first and still wait, for they must find
-- their place free.
local function admits(tally, mode, limit)
  if mode == 'X' then return tally.count == 0 end
  return not tally.exclusive and tally.count < tally.room and (mode == 'S' or tally.count < limit)
end

local function add(tally, mode)
  tally.count = tally.count + 1
  tally.exclusive = tally.exclusive or mode == 'X'
end

-- Whether a waiter may run; it counts as inside for those behind it.
local function let_in(tally, mode, limit)
  if not admits(tally, mode, limit) then return false end
  add(tally, mode)
  if mode == 'P' then tally.room = math.min(tally.room, limit) end
  return true
end

-- The holders; drops what time alone has ended. free_at: when the first of them ends by itself, lock-delay included.
local function inside()
  local tally = { count = 0, exclusive = false, room = math.huge, free_at = math.huge }
  local found, first = {}, nil
  local all = redis.call('HGETALL', holders)
  for i = 1, #all, 2 do
    local h = parse_holder(all[i + 1])
    if h.free_at <= now then
      redis.call('HDEL', holders, all[i])
    else
      h.owner, h.record = all[i], all[i + 1]
      first = first or h
      found[h.owner] = h
      add(tally, h.mode)
      tally.free_at = math.min(tally.free_at, h.free_at)
    end
  end
  return tally, found, first
end

local function drop_waiter(owner)
  redis.call('ZREM', queue, owner)
  redis.call('ZREM', alive, owner)
  redis.call('SREM', called, owner)
  redis.call('HDEL', waiters, owner)
end

local function expire_waiters()
  for _, owner in ipairs(redis.call('ZRANGEBYSCORE', alive, '-inf', now)) do drop_waiter(owner) end
end

-- The waiter at `rank`, or nil behind the last one. A place without a record (somebody deleted it) is given up.
local function waiter_at(rank)
  while true do
    local owner = redis.call('ZRANGE', queue, rank, rank)[1]
    if not owner then return nil end
    local record = redis.call('HGET', waiters, owner)
    local mode, limit = string.match(record or '', '^([XSP])|(%d+)|')
    if mode then return owner, mode, tonumber(limit) end
    drop_waiter(owner)
  end
end

-- Wakes exactly those who may run now and have not been told yet. Whoever does not ask again within `claim` loses its place, or
-- one stopped waiter would block all behind it. Comes last and never fails: what was decided before stands.
-- Returns when time alone may change who can run: the end of a holder, of one who may run and does not, and of the first who may not.
local wake_prefix = string.gsub(fence, 'fence$', 'wake:')
local function invite(tally, claim)
  local rank, free_at = 0, tally.free_at
  while true do
    local owner, mode, limit = waiter_at(rank)
    if not owner then return free_at end
    local runs = let_in(tally, mode, limit)
    local live_until = tonumber(redis.call('ZSCORE', alive, owner) or now + claim)
    if runs and redis.pcall('SADD', called, owner) == 1 then
      live_until = math.min(live_until, now + claim)
      redis.pcall('ZADD', alive, live_until, owner)
      redis.pcall('PEXPIRE', called, ms(claim))
      redis.pcall('RPUSH', wake_prefix .. owner, '1')
      redis.pcall('PEXPIRE', wake_prefix .. owner, ms(claim))
    end
    free_at = math.min(free_at, live_until)
    if not runs then return free_at end
    rank = rank + 1
  end
end

-- After something that may have made room. Nobody waits: nothing to look at.
local function wake(claim)
  if redis.call('ZCARD', queue) == 0 then return end
  expire_waiters()
  invite(inside(), claim)
end

-- Removes a holder in force.
local function release(owner)
  local record = redis.call('HGET', holders, owner)
  if not record or parse_holder(record).deadline <= now then return 0 end
  return redis.call('HDEL', holders, owner)
end
