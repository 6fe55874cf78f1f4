-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), state.lua (lock, value, record, next_token, keep, digits).
-- The token of a lock that other commands took before, if it still has their value. Repeating it
-- gives the same token. ARGV[4]: milliseconds to its end, if those commands set none. ->
-- {'granted', token} or {'gone'}
local me, mine, meta, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if value() ~= mine then return { 'gone' } end
if ttl then redis.call('PEXPIRE', lock, ttl) end
local r = record()
if r and r.owner == me and r.value == mine then return { 'granted', r.token } end
local token = next_token(r)
keep(token, me, mine, digits(now), meta)
return { 'granted', token }
