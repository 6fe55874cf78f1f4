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
-- counter  the highest number that this master has given or stored; it only rises, and is at least
--          this master's clock in microseconds when it gave one, so it rises over a loss of data,
--          too
-- newest   the newest token stored at this master
-- owner, token, since, meta
--          of its last vote; token 0: a majority never confirmed that; meta with the item
--          revoked=1: its owner was asked to stop; the item last=, which later votes keep, is the
--          last run of a job: `token,ended,status,started,who`, percent-encoded
-- list     of masters, by which a majority last confirmed a grant (record.hpp); empty: unknown;
--          with '?' before it: it is being changed
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

-- Stores that a majority has granted `token` to its owner.
local function confirm(r, token)
  r.counter = math.max(r.counter, tonumber(token))
  r.newest = digits(math.max(tonumber(r.newest), tonumber(token)))
  r.token = token
end

local function last_run(meta) return string.match('&' .. meta, '(&last=[^&]*)') or '' end

-- Records that a job ended with `status` under its confirmed vote. A last run with a newer token
-- stays. False: there is nothing to record.
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

-- Returns whether `owner` has the vote and it has not expired. In its last millisecond (PTTL 0)
-- dlock does not rely on it any more.
local function belongs(owner) return value() == owner and redis.call('PTTL', lock) ~= 0 end

-- {type, value, milliseconds to its end (-1: none, -2: no lock), then newest, owner, token, since,
-- meta, list of the record}
local function lock_state(r)
  local v, kind = value()
  local left = redis.call('PTTL', lock)
  return { kind, v or '', left, r.newest, r.owner, r.token, r.since, r.meta, r.list }
end

-- Wakes one waiter. This comes last and never fails, because earlier decisions stand.
local function wake()
  if redis.pcall('LLEN', wake_key) == 0 then redis.pcall('RPUSH', wake_key, '1') end
  redis.pcall('PEXPIRE', wake_key, 1000)
end

--- acquire: state
-- Phase 1: gives this master's vote, if it is free, and a number higher than all that it has given.
-- A repeated request of its owner gets the same vote. A client with another list of masters than
-- the list stored here gets no vote, unless it is about to change the list (ARGV[6] == '1').
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
-- Phase 2: writes the token back if the vote is still the owner's. A master whose own number is
-- higher stores the token, but does not count. Its number was not received when the token was
-- chosen, and the token is not above the numbers that others may have got.
-- ARGV: request, owner, token -> {request, now, 1 or 0}
local me, token = ARGV[2], ARGV[3]
local r = record()
if not belongs(me) or r.owner ~= me then return { id, digits(now), 0 } end
local counts = r.counter <= tonumber(token)
confirm(r, token)
keep(r)
return { id, digits(now), counts and 1 or 0 }

--- list: state
-- Stores the list of masters of a grant that a majority has confirmed, if the vote is still its
-- owner's. So a late copy of this request writes nothing after the grant. With ARGV[5] == '1'
-- another list that is known here is only marked; then neither list can grant.
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
--   -> {request, now, 'kept', token, since, meta}, or 'absent' or 'other' in place of 'kept', or
--      {request, now, 'list', known list}
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
-- its vote came too late to be counted
if r.token == '0' and token ~= '0' then confirm(r, token) end
if r.token ~= '0' then r.list = list end
note_run(r, me, ARGV[6])
keep(r)
return { id, digits(now), 'kept', r.token, r.since, r.meta }

--- retake: state
-- Gives the vote of a master that has none of ours (it restarted, or was away) to a grant that a
-- majority has just confirmed. Not later than ARGV[5] by this master's own clock, because a request
-- that was long under way must not take the vote for a grant that may be over.
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
-- Releases the vote, also after an attempt that failed. Deletes first, because Redis lets a script
-- that has written go on when memory is full. A record that cannot be read does not prevent the
-- release.
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
-- vote, and the next vote replaces it. A request that arrives late or twice names an owner without
-- later attempts, so it marks no later vote.
-- ARGV: request, owner -> {request, now, 1 or 0}
local r = record()
if not belongs(ARGV[2]) or r.owner ~= ARGV[2] then return { id, digits(now), 0 } end
if not string.find('&' .. r.meta .. '&', '&revoked=1&', 1, true) then
  r.meta = r.meta .. '&revoked=1'
  keep(r)
end
return { id, digits(now), 1 }

--- force_release: state
-- Removes the value that was read here, and no newer value: a string of this value, or any value of
-- another type.
-- ARGV: request, type, value -> {request, now, 1 or 0}
local v, kind = value()
if kind ~= ARGV[2] or v ~= ARGV[3] then return { id, digits(now), 0 } end
local removed = redis.call('DEL', lock)
if removed == 1 then wake() end
return { id, digits(now), removed }

--- inspect: state
-- Changes nothing. ARGV: request -> {request, now, {state}}
return { id, digits(now), lock_state(record()) }
