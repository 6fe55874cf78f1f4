-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), keys.lua (lock, queue).
-- Whether a grant with this token ('': any), of this owner ('': any), is in force now. Changes
-- nothing. KEYS lock   ARGV owner, token   -> 1 or 0
local function in_force(record)
  local owner, deadline = string.match(record or '', '^(%x*)|(%d+)|')
  return owner and tonumber(deadline) > now and (ARGV[1] == '' or owner == ARGV[1])
end
local found = call('HMGET', lock, 'version', ARGV[2])
if found[1] and found[1] ~= '1' then
  return redis.error_reply(
    'DLOCKLAYOUT ' .. lock .. ' has layout ' .. found[1] .. ', and this dlock knows layout 1')
end
if ARGV[2] ~= '' then return string.find(ARGV[2], '^%d+$') and in_force(found[2]) and 1 or 0 end
local fields = call('HGETALL', lock)
for i = 1, #fields, 2 do
  if string.find(fields[i], '^%d+$') and in_force(fields[i + 1]) then return 1 end
end
return 0
