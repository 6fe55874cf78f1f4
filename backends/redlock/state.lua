-- SPDX-License-Identifier: Apache-2.0
-- The first part of every script. The data that one master keeps of a lock:
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
-- A record of another layout than this one, which is the first, begins with its number: `v2|`.
--
-- ARGV[1] is the number of the request, and the first element of every reply; the second is this
-- master's clock in microseconds.
local lock, record_key, wake_key = KEYS[1], KEYS[2], KEYS[3]
local id = tonumber(ARGV[1])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function digits(n) return string.format('%.0f', n) end  -- tostring() keeps only 14 of them

-- The value; false: there is none. Another type belongs to another program: its name is the second
-- result.
local function value()
  local v = redis.pcall('GET', lock)
  if type(v) ~= 'table' then return v, v and 'string' or 'none' end
  local kind = redis.call('TYPE', lock).ok
  if kind == 'string' or kind == 'none' then error(v.err) end  -- not because of its type
  return '', kind
end

local function record()
  local text = redis.call('GET', record_key)
  if not text then
    return { counter = 0, newest = '0', owner = '', token = '0', since = '0', list = '', meta = '' }
  end
  if string.find(text, '^v%d') then
    local layout = string.match(text, '^v(%d+)')
    error('DLOCKLAYOUT ' .. record_key .. ' has layout ' .. layout
      .. ', and this dlock knows layout 1')
  end
  local counter, newest, owner, token, since, list, meta =
    string.match(text, '^(%d+)|(%d+)|(%x*)|(%d+)|(%d+)|([^|]*)|(.*)$')
  if not counter or tonumber(counter) >= 9007199254740991 then
    error('DLOCKDATA ' .. record_key .. ' is not a record of dlock')
  end
  return { counter = tonumber(counter), newest = newest, owner = owner, token = token,
    since = since, list = list, meta = meta }
end

local function keep(r)
  local fields = { digits(r.counter), r.newest, r.owner, r.token, r.since, r.list, r.meta }
  redis.call('SET', record_key, table.concat(fields, '|'), 'PX', 90 * 86400 * 1000)
end

-- Stores that a majority was given `token` under its owner.
local function confirm(r, token)
  r.counter = math.max(r.counter, tonumber(token))
  r.newest = digits(math.max(tonumber(r.newest), tonumber(token)))
  r.token = token
end

local function last_run(meta) return string.match('&' .. meta, '(&last=[^&]*)') or '' end

-- Notes in the record that a job ended with `status` under its confirmed vote. One with a newer
-- token that is there already stays. False: there is nothing to note.
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

-- Whether `owner` has the vote, and it has not expired: in its last millisecond (PTTL 0) it is no
-- longer relied upon.
local function belongs(owner) return value() == owner and redis.call('PTTL', lock) ~= 0 end

-- {type, value, milliseconds to its end (-1: none, -2: no lock), then newest, owner, token, since,
-- meta, list of the record}
local function seen(r)
  local v, kind = value()
  local left = redis.call('PTTL', lock)
  return { kind, v or '', left, r.newest, r.owner, r.token, r.since, r.meta, r.list }
end

-- Wakes one waiter. Comes last and never fails: earlier decisions stand.
local function wake()
  if redis.pcall('LLEN', wake_key) == 0 then redis.pcall('RPUSH', wake_key, '1') end
  redis.pcall('PEXPIRE', wake_key, 1000)
end
