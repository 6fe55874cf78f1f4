-- SPDX-License-Identifier: Apache-2.0
-- Notes the start of a job, under a grant in force. start '': withdraws the note of this grant, and
-- no other.
-- KEYS lock   ARGV owner, token, start, how long to keep the note (µs)   -> {1 or 0, now}
local found = call('HMGET', lock, ARGV[2], 'start', 'expires')
local owner, deadline = string.match(found[1] or '', '^(%x*)|(%d+)|')
if owner ~= ARGV[1] or tonumber(deadline) <= now then return { 0, now } end
if ARGV[3] == '' then
  if string.match(found[2] or '', '|(%d+)$') == ARGV[2] then call('HDEL', lock, 'start') end
  return { 1, now }
end
local keep_until = now + tonumber(ARGV[4])
local expires = math.max(tonumber(found[3]) or 0, keep_until)
local start = ARGV[3] .. '|' .. string.format('%.0f', keep_until) .. '|' .. ARGV[2]
call('HSET', lock, 'start', start, 'expires', string.format('%.0f', expires))
call('PEXPIRE', lock, math.ceil((expires - now) / 1000) + 1000)
return { 1, now }
