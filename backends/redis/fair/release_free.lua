-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), keys.lua (lock, queue), find_token.lua (the token in ARGV[2]),
-- note_run.lua (note_run).
-- Releases the grant with this token, if it is this owner's and in force. Deletes first (allowed
-- even when memory is full), wakes last. A clean release starts no lock-delay. KEYS lock [queue]
-- ARGV owner, token, claim, how the job ended ('': there was none)   -> {released, now}
local found = call('HMGET', lock, ARGV[2], 'wait', 'revoke', 'last')
local released = 0
if found[1] then
  local deadline = string.match(found[1], '^%x*|(%d+)|')
  if not deadline then
    return redis.error_reply('DLOCKDATA ' .. lock .. ' is not a record of dlock')
  end
  if string.sub(found[1], 1, #ARGV[1] + 1) == ARGV[1] .. '|' and tonumber(deadline) > now then
    released = call('HDEL', lock, ARGV[2])
  end
end
if released == 1 then note_run(found[1], found[4], ARGV[4]) end
if released == 1 and found[3] then  -- a mark goes with the last grant that it names
  local marked, left = tonumber(string.match(found[3], '^%d+')) or 0, false
  local fields = call('HGETALL', lock)
  for i = 1, #fields, 2 do left = left or (tonumber(fields[i]) or math.huge) <= marked end
  if not left then call('HDEL', lock, 'revoke') end
end
if not found[2] or tonumber(found[2]) <= now or not queue then return { released, now } end
