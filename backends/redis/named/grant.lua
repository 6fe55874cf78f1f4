-- SPDX-License-Identifier: Apache-2.0
-- The token of a lock that was taken by other commands before, if it still has the value that they gave it. Repeating it gives the same token.
-- ARGV[4]: milliseconds to its end, where those commands gave it none. -> {'granted', token} or {'gone'}
local me, mine, meta, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if value() ~= mine then return { 'gone' } end
if ttl then redis.call('PEXPIRE', lock, ttl) end
local r = record()
if r and r.owner == me and r.value == mine then return { 'granted', r.token } end
local token = next_token(r)
keep(token, me, mine, digits(now), meta)
return { 'granted', token }
