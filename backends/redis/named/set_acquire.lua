-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), state.lua (lock, value, record, seen, next_token, keep, digits).
-- SET NX PX, and a token with it. -> {'granted'|'held', token} or {'busy', {seen}}
local me, ttl, meta = ARGV[1], ARGV[2], ARGV[3]
local v, kind = value()
local r = record()
if v == me then
  if r and r.owner == me and r.value == me then return { 'held', r.token } end
elseif kind ~= 'none' then
  return { 'busy', seen() }
end
local token = next_token(r)
redis.call('SET', lock, me, 'PX', ttl)
keep(token, me, me, digits(now), meta)
return { 'granted', token }
