-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), state.lua (value, record, seen, next_token, keep, digits).
-- The algorithm's SETNX, GET and GETSET in one step: so it overwrites no time of another, and a
-- late request is judged by the clock of its sending. ARGV: owner, its value, meta, the client's
-- time and, in the same units, microseconds per unit of a value.
-- -> {'granted'|'held', token} or {'busy', {seen}}
local me, mine, meta, theirs, unit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local v, kind = value()
local r = record()
if kind ~= 'none' then
  local ends = kind == 'string' and string.match(v, '^%d+%.?%d*$') and tonumber(v)
  if not ends or ends * unit > theirs then
    if ends and r and r.owner == me and r.value == v then return { 'held', r.token } end
    return { 'busy', seen() }
  end
end
local token = next_token(r)
redis.call('SET', lock, mine)
keep(token, me, mine, digits(now), meta)
return { 'granted', token }
