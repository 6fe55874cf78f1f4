-- SPDX-License-Identifier: Apache-2.0
-- Behind ../fair/clock.lua (call, now).
-- Recipes that exclude with other programs: the lock is a string under the name those programs use,
-- and the client that created it holds it. Beside it dlock keeps a record of its own grants, which
-- other programs do not know:
--
--   KEYS[1]  the lock    a value that identifies its holder
--   KEYS[2]  the fence   token|owner|value|since|meta of dlock's newest grant; expires 90 days
--                        after it. Not given to renew and release of a lock that names its owner,
--                        if its slot is being moved and only one of the two keys is here
--
-- A record of another layout than this one, which is the first, begins with its number: `v2|`.
-- The record describes the lock only as long as the lock has that value.
local lock, fence = KEYS[1], KEYS[2]

local function digits(n) return string.format('%.0f', n) end

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
  if not fence then return nil end
  local text = redis.call('GET', fence)
  if not text then return nil end
  if string.find(text, '^v%d') then
    local layout = string.match(text, '^v(%d+)')
    error('DLOCKLAYOUT ' .. fence .. ' has layout ' .. layout .. ', and this dlock knows layout 1')
  end
  local token, owner, v, since, meta = string.match(text, '^(%d+)|(%x*)|([^|]*)|(%d+)|(.*)$')
  if not token or tonumber(token) >= 9007199254740991 then
    error('DLOCKDATA ' .. fence .. ' is not a record of dlock')
  end
  return { token = token, owner = owner, value = v, since = since, meta = meta }
end

local function keep(token, owner, v, since, meta)
  local text = table.concat({ token, owner, v, since, meta }, '|')
  redis.call('SET', fence, text, 'PX', 90 * 86400 * 1000)
end

local function next_token(r) return digits(math.max(tonumber(r and r.token or '0') + 1, now)) end

-- Whether value `v` is that of `owner`, and not expired: in its last millisecond (PTTL 0) the
-- server still shows a lock that check calls stale, and a grant once reported as stale must not
-- come back.
-- `sign`: the value of this owner, or its beginning if it ends in ':'; empty: only the record has
-- the owner.
local function belongs(v, r, owner, sign)
  if not v or redis.call('PTTL', lock) == 0 then return false end
  if sign == '' then return r ~= nil and r.owner == owner and r.value == v end
  return v == sign or (string.sub(sign, -1) == ':' and string.sub(v, 1, #sign) == sign)
end

-- {now, type, value, milliseconds to its end (-1: none, -2: no lock), then token, owner, value,
-- since, meta of the record if there is one}
local function seen()
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
