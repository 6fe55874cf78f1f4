-- SPDX-License-Identifier: Apache-2.0
-- The scripts of redlock. Each is a piece that is sent after the pieces that it names. clock (call,
-- now) is in ../redis/fair/state.lua, value (digits, value, refuse) in ../redis/named/named.lua.

--- keys: clock
-- The data that one master keeps of a lock:
--
--   KEYS[1]  the lock         a string under the name that other Redlock clients use: its creator
--                             has this master's vote
--   KEYS[2]  the record       counter|newest|owner|token|since|list|meta; expires 90 days after the
--                             last grant or renewal
--   KEYS[3]  the wake list    where waiters sleep; lives for a second
--
-- counter  the highest number that this master has given or stored. It only rises. When the master
--          gives a number, it is at least the master's clock in microseconds, so it also rises over
--          a loss of data
-- newest   the newest token stored at this master
-- owner, token, since, meta
--          of the master's last vote. token 0: no majority has confirmed that vote. The item
--          revoked=1 in meta: the owner was asked to stop. The item last= in meta, which later
--          votes keep: the last run of a job, `token,ended,status,started,who`, percent-encoded
-- list     the list of masters of the last confirmed grant (record.hpp); empty: unknown;
--          with '?' before it: the list is being changed
--
-- ARGV[1] is the number of the request, and the first element of every reply; the second is this
-- master's clock in microseconds.
local lock, record_key, wake_key = KEYS[1], KEYS[2], KEYS[3]
local id = tonumber(ARGV[1])

--- state: value
local function record()
  local text = redis.call('GET', record_key)
  if not text then
    return { counter = 0, newest = '0', owner = '', token = '0', since = '0', list = '', meta = '' }
  end
  local counter, newest, owner, token, since, list, meta =
    string.match(text, '^(%d+)|(%d+)|(%x*)|(%d+)|(%d+)|([^|]*)|(.*)$')
  if not counter or tonumber(counter) >= 9007199254740991 then refuse(record_key, text) end
  return { counter = tonumber(counter), newest = newest, owner = owner, token = token,
    since = since, list = list, meta = meta }
end

local function keep(r)
  local fields = { digits(r.counter), r.newest, r.owner, r.token, r.since, r.list, r.meta }
  redis.call('SET', record_key, table.concat(fields, '|'), 'PX', 90 * 86400 * 1000)
end

-- Stores that a majority has granted `token` to the owner in the record.
local function confirm(r, token)
  r.counter = math.max(r.counter, tonumber(token))
  r.newest = digits(math.max(tonumber(r.newest), tonumber(token)))
  r.token = token
end

local function last_run(meta) return string.match('&' .. meta, '(&last=[^&]*)') or '' end

-- Records that a job ended with `status` under the confirmed vote of `owner`. A last run with a
-- newer token stays. False: there is nothing to record.
local function note_run(r, owner, status)
  if not status or status == '' or r.owner ~= owner or r.token == '0' then return false end
  local before = last_run(r.meta)
  local noted = tonumber(string.match(before, '^&last=(%d+)')) or 0
  if noted >= tonumber(r.token) then return false end
  local rest, who = '', ''
  for item in string.gmatch(r.meta, '[^&]+') do
    local name = string.match(item, '^[^=]*')
    if name ~= 'last' then rest = rest .. '&' .. item end
    if name == 'host' or name == 'pid' or name == 'user' then who = who .. '&' .. item end
  end
  local text = table.concat({ r.token, digits(now), status, r.since, string.sub(who, 2) }, ',')
  local function encoded(c) return string.format('%%%02X', string.byte(c)) end
  r.meta = string.sub(rest, 2) .. '&last=' .. string.gsub(text, '[&%%|]', encoded)
  return true
end

-- Returns whether `owner` has the vote and the vote has not expired. In the last millisecond of a
-- vote (PTTL 0), dlock no longer relies on it.
local function belongs(owner) return value() == owner and redis.call('PTTL', lock) ~= 0 end

-- Returns {type, value, milliseconds until the lock ends (-1: never, -2: there is no lock)},
-- followed by newest, owner, token, since, meta and list of the record.
local function lock_state(r)
  local v, kind = value()
  local left = redis.call('PTTL', lock)
  return { kind, v or '', left, r.newest, r.owner, r.token, r.since, r.meta, r.list }
end

-- Wakes one waiter. A script calls this last. It never fails, because what was written before
-- stays.
local function wake()
  if redis.pcall('LLEN', wake_key) == 0 then redis.pcall('RPUSH', wake_key, '1') end
  redis.pcall('PEXPIRE', wake_key, 1000)
end

--- acquire: state
-- Phase 1: gives this master's vote, if it is free, and a number higher than all numbers that it
-- has given. A repeated request of the same owner gets the same vote. A client whose list of
-- masters is not the list stored here gets no vote, unless it is about to change the list (ARGV[6]
-- == '1').
-- ARGV: request, owner, ttl (ms), meta, list, change
--   -> {request, now, 'granted', number, token or '0', known list}, or {request, now, 'busy',
--      {state}}, or {request, now, 'list', known list}
local me, ttl, meta, list, change = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] == '1'
local r = record()
if r.list ~= '' and r.list ~= list and not change then
  return { id, digits(now), 'list', r.list }
end
local v, kind = value()
if v == me and r.owner == me then
  redis.call('PEXPIRE', lock, ttl)
  return { id, digits(now), 'granted', digits(r.counter), r.token, r.list }
end
if v ~= me and kind ~= 'none' then return { id, digits(now), 'busy', lock_state(r) } end
r.counter = math.max(r.counter + 1, now)
r.owner, r.token, r.since, r.meta = me, '0', digits(now), meta .. last_run(r.meta)
keep(r)
redis.call('SET', lock, me, 'PX', ttl)
return { id, digits(now), 'granted', digits(r.counter), '0', r.list }

--- confirm: state
-- Phase 2: stores the token if the owner still has the vote. If this master's number is higher than
-- the token, the master stores the token, but replies 0, so it does not count. The client had not
-- received that number when it chose the token, and the token is not above the numbers that others
-- may have got.
-- ARGV: request, owner, token -> {request, now, 1 or 0}
local me, token = ARGV[2], ARGV[3]
local r = record()
if not belongs(me) or r.owner ~= me then return { id, digits(now), 0 } end
local counts = r.counter <= tonumber(token)
confirm(r, token)
keep(r)
return { id, digits(now), counts and 1 or 0 }

--- list: state
-- Stores the list of masters of a grant that a majority has confirmed, if its owner still has the
-- vote. So a late copy of this request writes nothing after that grant. With ARGV[5] == '1' the
-- script only marks another list that is stored here. Then neither list can grant.
-- ARGV: request, owner, token, list, mark -> {request, now, 1 or 0}
local me, token, list, mark = ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'
local r = record()
if not belongs(me) or r.owner ~= me or r.token ~= token then return { id, digits(now), 0 } end
if not mark then
  r.list = list
elseif r.list ~= '' and r.list ~= list and string.sub(r.list, 1, 1) ~= '?' then
  r.list = '?' .. r.list
end
keep(r)
return { id, digits(now), 1 }

--- renew: state
-- ARGV: request, owner, ttl (ms), token ('0': not known), list, how the job ended (detach; '':
-- there was none)
--   -> {request, now, 'kept', token, since, meta}, {request, now, 'absent'} if there is no lock,
--      {request, now, 'other'} if there is another one, or {request, now, 'list', known list}
local me, ttl, token, list = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if not belongs(me) then
  local _, kind = value()
  return { id, digits(now), kind == 'none' and 'absent' or 'other' }
end
local r = record()
if r.list ~= '' and r.list ~= list then return { id, digits(now), 'list', r.list } end
redis.call('PEXPIRE', lock, ttl)
if r.owner ~= me then  -- the record was lost, the lock was not
  r.counter = math.max(r.counter + 1, now)
  r.owner, r.token, r.since, r.meta = me, '0', digits(now), last_run(r.meta)
end
-- this master's vote came too late to be counted
if r.token == '0' and token ~= '0' then confirm(r, token) end
if r.token ~= '0' then r.list = list end
note_run(r, me, ARGV[6])
keep(r)
return { id, digits(now), 'kept', r.token, r.since, r.meta }

--- retake: state
-- Gives this master's vote, if it is free, to a grant that a majority has just confirmed. The
-- master restarted, or was away, and has no vote for that grant. The script gives nothing after
-- ARGV[5] by this master's own clock, because a request that was long under way must not take the
-- vote for a grant that may be over.
-- ARGV: request, owner, ttl (ms), token, not after (us), since, meta, list
--   -> {request, now, 1 or 0}
local me, ttl, token, not_after = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local since, meta, list = ARGV[6], ARGV[7], ARGV[8]
local _, kind = value()
if now > not_after or kind ~= 'none' then return { id, digits(now), 0 } end
local r = record()
if r.list ~= '' and r.list ~= list then return { id, digits(now), 0 } end
r.owner, r.since, r.meta, r.list = me, since, meta, list
confirm(r, token)
keep(r)
redis.call('SET', lock, me, 'PX', ttl)
return { id, digits(now), 1 }

--- release: state
-- Releases the vote, also after an attempt that failed. Deletes first, because when memory is full,
-- Redis lets a script go on only if it has already written. A record that cannot be read does not
-- prevent the release.
-- ARGV: request, owner, '1': wake one waiter, how the job ended ('': there was none)
-- -> {request, now, 1 or 0}
if not belongs(ARGV[2]) then return { id, digits(now), 0 } end
redis.call('DEL', lock)
if (ARGV[4] or '') ~= '' then
  local readable, r = pcall(record)
  if readable and note_run(r, ARGV[2], ARGV[4]) then keep(r) end
end
if ARGV[3] == '1' then wake() end
return { id, digits(now), 1 }

--- revoke: state
-- Asks the owner of the vote to stop. The mark is in the part of the record that belongs to this
-- vote, and the next vote replaces that part. A request that arrives late or twice names an owner
-- that has no later attempts, so it marks no later vote.
-- ARGV: request, owner -> {request, now, 1 or 0}
local r = record()
if not belongs(ARGV[2]) or r.owner ~= ARGV[2] then return { id, digits(now), 0 } end
if not string.find('&' .. r.meta .. '&', '&revoked=1&', 1, true) then
  r.meta = r.meta .. '&revoked=1'
  keep(r)
end
return { id, digits(now), 1 }

--- force_release: state
-- Removes the value that was read here, and no newer value: a string if it has that value, and
-- anything else if it has that type.
-- ARGV: request, type, value -> {request, now, 1 or 0}
local v, kind = value()
if kind ~= ARGV[2] or v ~= ARGV[3] then return { id, digits(now), 0 } end
local removed = redis.call('DEL', lock)
if removed == 1 then wake() end
return { id, digits(now), removed }

--- inspect: state
-- Changes nothing. ARGV: request -> {request, now, {state}}
return { id, digits(now), lock_state(record()) }
