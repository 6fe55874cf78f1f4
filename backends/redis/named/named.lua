-- SPDX-License-Identifier: Apache-2.0
-- The scripts of the named recipes. Each is a piece that is sent after the pieces that it names.
-- clock (call, now) is in ../fair/state.lua.

--- keys: clock
-- With these recipes, dlock and other programs exclude each other. The lock is a string under the
-- name that those programs use, and the client that created the string holds the lock. Beside it,
-- dlock keeps a record of its own grants, which other programs do not know:
--
--   KEYS[1]  the lock    a value that identifies its holder
--   KEYS[2]  the fence   token|owner|value|since|meta of dlock's newest grant; expires 90 days
--                        after that grant. It is not given to renew and release if only one of
--                        the two keys is here, because their slot is being moved, and the value of
--                        the lock names its owner
--
-- The record counts only while the lock has the value that the record names.
local lock, fence = KEYS[1], KEYS[2]

--- value: keys
-- For these recipes and redlock.
local function digits(n) return string.format('%.0f', n) end  -- tostring() keeps only 14 of them

-- Returns the value and the type of the lock. If there is no lock: false and 'none'. If the type is
-- neither 'none' nor 'string', the lock belongs to another program, and the value is ''.
local function value()
  local v = redis.pcall('GET', lock)
  if type(v) ~= 'table' then return v, v and 'string' or 'none' end
  local kind = redis.call('TYPE', lock).ok
  if kind == 'string' or kind == 'none' then error(v.err) end  -- not because of its type
  return '', kind
end

-- Refuses a record that cannot be read. This layout is the first one. A record of another layout
-- begins with the number of that layout, such as `v2|`.
local function refuse(key, text)
  local layout = string.match(text, '^v(%d+)')
  if not layout then error('DLOCKDATA ' .. key .. ' is not a record of dlock') end
  error('DLOCKLAYOUT ' .. key .. ' has layout ' .. layout .. ', and this dlock knows layout 1')
end

--- state: value
local function record()
  if not fence then return nil end
  local text = redis.call('GET', fence)
  if not text then return nil end
  local token, owner, v, since, meta = string.match(text, '^(%d+)|(%x*)|([^|]*)|(%d+)|(.*)$')
  if not token or tonumber(token) >= 9007199254740991 then refuse(fence, text) end
  return { token = token, owner = owner, value = v, since = since, meta = meta }
end

local function keep(token, owner, v, since, meta)
  local text = table.concat({ token, owner, v, since, meta }, '|')
  redis.call('SET', fence, text, 'PX', 90 * 86400 * 1000)
end

local function next_token(r) return digits(math.max(tonumber(r and r.token or '0') + 1, now)) end

-- Returns whether value `v` belongs to `owner` and the lock has not expired. In the last
-- millisecond of a lock (PTTL 0) the server still shows the lock, but check calls it stale. A grant
-- that was reported as stale once must not become valid again.
local function belongs(v, r, owner, sign)
  if not v or redis.call('PTTL', lock) == 0 then return false end
  if sign == '' then return r ~= nil and r.owner == owner and r.value == v end
  return v == sign or (string.sub(sign, -1) == ':' and string.sub(v, 1, #sign) == sign)
end

-- Returns {now, type, value, milliseconds until the lock ends (-1: never, -2: there is no lock)},
-- followed by token, owner, value, since and meta of the record if there is one.
local function lock_state()
  local v, kind = value()
  local out = { digits(now), kind, v or '', redis.call('PTTL', lock) }
  local r = record()
  if r then
    for _, field in ipairs({ 'token', 'owner', 'value', 'since', 'meta' }) do
      table.insert(out, r[field])
    end
  end
  return out
end

--- inspect: state
-- Changes nothing. -> the result of lock_state()
return lock_state()

--- set_acquire: state
-- SET NX PX, with a token. -> {'granted'|'held', token} or {'busy', {state}}
local me, ttl, meta = ARGV[1], ARGV[2], ARGV[3]
local v, kind = value()
local r = record()
if v == me then
  if r and r.owner == me and r.value == me then return { 'held', r.token } end
elseif kind ~= 'none' then
  return { 'busy', lock_state() }
end
local token = next_token(r)
redis.call('SET', lock, me, 'PX', ttl)
keep(token, me, me, digits(now), meta)
return { 'granted', token }

--- getset_acquire: state
-- Does the algorithm's SETNX, GET and GETSET in one step. So it never overwrites the time of a
-- valid holder, and it judges a late request by the client's clock when the request was sent. ARGV:
-- owner, its value, meta, the client's time in microseconds, microseconds per unit of a value.
-- -> {'granted'|'held', token} or {'busy', {state}}
local me, mine, meta, theirs, unit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local v, kind = value()
local r = record()
if kind ~= 'none' then
  local ends = kind == 'string' and string.match(v, '^%d+%.?%d*$') and tonumber(v)
  if not ends or ends * unit > theirs then
    if ends and r and r.owner == me and r.value == v then return { 'held', r.token } end
    return { 'busy', lock_state() }
  end
end
local token = next_token(r)
redis.call('SET', lock, mine)
keep(token, me, mine, digits(now), meta)
return { 'granted', token }

--- grant: state
-- Gives a token to a lock that earlier commands took, if the lock still has the value that they
-- wrote. A repetition returns the same token. ARGV[4]: milliseconds until the lock ends, if those
-- commands set no expiry.
-- -> {'granted', token} or {'gone'}
local me, mine, meta, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if value() ~= mine then return { 'gone' } end
if ttl then redis.call('PEXPIRE', lock, ttl) end
local r = record()
if r and r.owner == me and r.value == mine then return { 'granted', r.token } end
local token = next_token(r)
keep(token, me, mine, digits(now), meta)
return { 'granted', token }

--- renew: state
-- -> {'kept', token} or {'lost'}
local me, sign, ttl = ARGV[1], ARGV[2], ARGV[3]
local v = value()
local r = record()
if not belongs(v, r, me, sign) then return { 'lost' } end
redis.call('PEXPIRE', lock, ttl)
if not fence then return { 'kept', '0' } end
if not (r and r.owner == me and r.value == v) then  -- the record was lost, the lock was not
  r = { token = next_token(r), since = digits(now), meta = '' }
end
keep(r.token, me, v, r.since, r.meta)
return { 'kept', r.token }

--- getset_renew: state
-- Replaces our time by a new one. ARGV: owner, new value, microseconds per unit of a value.
-- -> {'kept', token} or {'lost'}
local me, new, unit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local v = value()
local r = record()
local ends = belongs(v, r, me, '') and tonumber(v)
if not ends or ends * unit <= now then return { 'lost' } end
redis.call('SET', lock, new)
keep(r.token, me, new, r.since, r.meta)
return { 'kept', r.token }

--- release: state
-- Deletes the lock if it is this owner's. ARGV[3]: microseconds per unit, if the value is the time
-- at which the lock ends. After that time the lock is left for others to take over. -> 1 or 0
local v = value()
if not belongs(v, record(), ARGV[1], ARGV[2]) then return 0 end
if ARGV[3] and (tonumber(v) or 0) * ARGV[3] <= now then return 0 end
return redis.call('DEL', lock)

--- force_release: state
-- With a token: removes the lock if dlock's grant with this token is in force. Without a token:
-- removes any value, of any program. -> 1 or 0
local token = ARGV[1]
if token ~= '' then
  local r = record()
  if not r or r.token ~= token or value() ~= r.value then return 0 end
end
return redis.call('DEL', lock)

--- delete_stale: state
-- Ends a lock that has no expiry and still has the value ARGV[1], which the sender has read.
-- ARGV[2]: the expiry to set (milliseconds); empty: remove the lock. -> 1 or 0
if value() ~= ARGV[1] or redis.call('PTTL', lock) ~= -1 then return 0 end
if ARGV[2] == '' then return redis.call('DEL', lock) end
return redis.call('PEXPIRE', lock, ARGV[2])
