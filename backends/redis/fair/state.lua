-- SPDX-License-Identifier: Apache-2.0
-- The shared parts of the scripts of recipe fair. Each script is a piece of a file here. It is sent
-- after the pieces that it names.

--- clock
-- The server's clock in microseconds, the only clock that decides anything. It is a separate piece
-- so that a test can replace it.
local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

--- keys: clock
-- If the queue is not given (its slot is being moved), a script does what the lock alone allows.
local lock, queue = KEYS[1], KEYS[2]
-- The replies for a record that this dlock cannot use. It stays as it is.
local function other_layout(version)
  local known = ', and this dlock knows layout 1'
  return redis.error_reply('DLOCKLAYOUT ' .. lock .. ' has layout ' .. version .. known)
end
local function no_record()
  return redis.error_reply('DLOCKDATA ' .. lock .. ' is not a record of dlock')
end

--- state: keys
-- For requests beyond the fast paths: LockState of src/core/lock_state.cpp, kept in two keys, which
-- README.md describes under "Layout". Instants are microseconds of the server's clock; a double
-- holds them exactly until the year 2255.
local border = 100000000000000  -- in the queue: tickets are below, instants above
local function digits(n) return string.format('%.0f', n) end  -- tostring() keeps only 14 of them
local function instant(t) return t < math.huge and t or 0 end  -- 0: never
-- for PEXPIRE: a key must outlive its contents
local function ms(span) return math.ceil(span / 1000) + 1000 end
-- It is no record of dlock: refuse it, and guess nothing.
local function corrupt() error('DLOCKDATA ' .. lock .. ' is not a record of dlock') end

local fixed = { version = true, fence = true, expires = true, wait = true, start = true,
  last = true, revoke = true }

local function parse_holder(token, record)
  local owner, deadline, mode, slot, delay =
    string.match(record, '^(%x*)|(%d+)|%d+|([XSP])|(%d+)|(%d+)|%d+|')
  if not owner or not string.find(token, '^%d+$') then corrupt() end
  return { token = token, owner = owner, deadline = tonumber(deadline), mode = mode,
    slot = tonumber(slot), record = record, free_at = tonumber(deadline) + tonumber(delay) }
end
-- The public part of a holder. The owner is a secret, but its first digits tell holders apart.
local function shown(h)
  if not h then return '' end
  return h.token .. '|' .. string.sub(h.record, 1, 8) .. string.sub(h.record, #h.owner + 1)
end

-- A tally counts the owners that hold, or would hold, at the same time. tally.room: the smallest
-- limit of the waiters ahead, because these waiters must still be able to hold.
local function admits(tally, mode, limit)
  if mode == 'X' then return tally.count == 0 end
  return not tally.exclusive and tally.count < tally.room and (mode == 'S' or tally.count < limit)
end
local function add(tally, mode)
  tally.count = tally.count + 1
  tally.exclusive = tally.exclusive or mode == 'X'
end
-- Returns whether a waiter may run. If so, counts it as a holder for the waiters behind it.
local function let_in(tally, mode, limit)
  if not admits(tally, mode, limit) then return false end
  add(tally, mode)
  if mode == 'P' then tally.room = math.min(tally.room, limit) end
  return true
end

-- Finds the holders among these fields, and removes expired ones. tally.free_at: when the first
-- holder ends by itself, including its lock-delay.
-- -> tally, holders, the oldest holder, the newest token of all
local function inside(fields)
  local tally = { count = 0, exclusive = false, room = math.huge, free_at = math.huge }
  local holders, first, top = {}, nil, 0
  for i = 1, #fields, 2 do
    if not fixed[fields[i]] then
      local h = parse_holder(fields[i], fields[i + 1])
      local number = tonumber(h.token)
      top = math.max(top, number)
      if h.free_at <= now then
        call('HDEL', lock, h.token)
      else
        if not first or number < tonumber(first.token) then first = h end
        table.insert(holders, h)
        add(tally, h.mode)
        tally.free_at = math.min(tally.free_at, h.free_at)
      end
    end
  end
  return tally, holders, first, top
end

-- If the slot of a key is being moved, and a script empties the key and then accesses it again,
-- Redis stops the script halfway with an error. So count the members of the queue here, and do not
-- access an empty queue.
local size, cached = 0, {}
local function drop(ticket)
  size = size - call('ZREMRANGEBYSCORE', queue, ticket, ticket)
  if size > 0 then size = size - call('ZREM', queue, 'l' .. ticket) end
  cached = {}
end
local function expire_waiters()  -- before any other access to the queue
  size = call('ZCARD', queue)
  if size == 0 then return end
  local silent = call('ZRANGEBYSCORE', queue, border, string.format('%.1f', now + 0.5))
  for _, member in ipairs(silent) do drop(string.sub(member, 2)) end
end
-- Returns the score of a waiter's mark: until when the waiter lives, plus .5 if the waiter was
-- invited and has not polled since.
local function mark(live_until, called) return digits(live_until) .. (called and '.5' or '') end

-- Returns the waiter at `rank`, or nil after the last one. Removes a place whose mark was deleted.
local function waiter_at(rank)
  while not cached[rank] do
    if size == 0 then return nil end
    local found = call('ZRANGE', queue, rank, rank, 'WITHSCORES')
    if not found[1] or tonumber(found[2]) >= border then return nil end
    local owner, mode, limit = string.match(found[1], '^(%x*)|([XSP])|(%d+)|')
    local live = mode and call('ZSCORE', queue, 'l' .. found[2])
    if live then
      live = tonumber(live)
      cached[rank] = { owner = owner, mode = mode, limit = tonumber(limit), ticket = found[2],
        live_until = math.floor(live), called = live % 1 > 0 }
    else
      drop(found[2])
    end
  end
  return cached[rank]
end

-- Wakes exactly the waiters that may run now and have not been invited yet. A waiter that does not
-- poll again within `claim` loses its place, because it would block all waiters behind it. A script
-- calls this last. It never fails, because what the script has written before stays. A waiter that
-- cannot be woken (memory is full, or another server has the waiter's list because the slot is
-- being moved) learns of its turn at its next refresh. `claim` nil: wakes nobody.
-- -> when time alone may change which waiters can run: the earliest end of a holder, of a waiter
--    that may run and does not, and of the first waiter that may not run; and the rank of the
--    first waiter that may not run
local wake = string.gsub(lock, 'fence$', 'wake:')
local function invite(tally, claim)
  local rank, free_at = 0, tally.free_at
  while true do
    local w = waiter_at(rank)
    if not w then return free_at, rank end
    local runs = let_in(tally, w.mode, w.limit)
    if runs and claim and not w.called then
      local list = wake .. w.owner
      if type(redis.pcall('RPUSH', list, '1')) == 'number' then
        redis.pcall('PEXPIRE', list, ms(claim))
        w.called, w.live_until = true, math.min(w.live_until, now + claim)
        redis.pcall('ZADD', queue, mark(w.live_until, true), 'l' .. w.ticket)
      end
    end
    free_at = math.min(free_at, w.live_until)
    if not runs then return free_at, rank end
    rank = rank + 1
  end
end

-- Call it after an operation that may have made room, if there may be waiters. `fields`: the fields
-- of the lock after that operation. The operation stays done, whatever is in the place of the
-- queue.
local function serve_queue(fields, claim)
  pcall(function()
    expire_waiters()
    invite(inside(fields), claim)
    if not waiter_at(0) then call('HDEL', lock, 'wait') end
  end)
end
