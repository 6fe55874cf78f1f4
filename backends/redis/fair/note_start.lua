-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), keys.lua (lock, queue), find_token.lua (the token in ARGV[2]).
-- Replaces the noted start, under a grant in force, if it is the one that was read. If it is the
-- new one already, the request is repeated: written again, for the replicas.
-- KEYS lock   ARGV owner, token, the start that was read, the new one: 'at|keep until' or ''
-- -> {1: done, 0: no grant in force, 2: another start is noted; now}
local found = call('HMGET', lock, ARGV[2], 'start', 'expires')
local owner, deadline = string.match(found[1] or '', '^(%x*)|(%d+)|')
if owner ~= ARGV[1] or tonumber(deadline) <= now then return { 0, now } end
local function needed(start)
  local note, keep_until = string.match(start, '^(%d+|(%d+))')
  return note and tonumber(keep_until) > now and note or ''
end
local noted = needed(found[2] or '')
if noted ~= needed(ARGV[3]) and noted ~= needed(ARGV[4]) then return { 2, now } end
if ARGV[4] == '' then
  call('HDEL', lock, 'start')
  return { 1, now }
end
local keep_until = tonumber(string.match(ARGV[4], '%d+$'))
local expires = math.max(tonumber(found[3]) or 0, keep_until)
call('HSET', lock, 'start', ARGV[4] .. '|' .. ARGV[2], 'expires', string.format('%.0f', expires))
call('PEXPIRE', lock, math.ceil((expires - now) / 1000) + 1000)
return { 1, now }
