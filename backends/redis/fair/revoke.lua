-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), keys.lua (lock, queue).
-- Asks the holders in force with this token or an older one to stop. The sender has read the token
-- from the lock. Tokens only rise, so a request that arrives late or twice, when those grants are
-- over, finds no holder to ask and writes nothing; a mark that is left asks no later grant.
-- KEYS lock   ARGV token, who asks   -> {holders asked, now}
local fields, asked, marked = call('HGETALL', lock), 0, 0
for i = 1, #fields, 2 do
  local name, value = fields[i], fields[i + 1]
  if name == 'version' and value ~= '1' then
    return redis.error_reply(
      'DLOCKLAYOUT ' .. lock .. ' has layout ' .. value .. ', and this dlock knows layout 1')
  elseif name == 'revoke' then
    marked = tonumber(string.match(value, '^%d+')) or 0
  elseif string.find(name, '^%d+$') and tonumber(name) <= tonumber(ARGV[1]) then
    local deadline = tonumber(string.match(value, '^%x*|(%d+)|'))
    if deadline and deadline > now then asked = asked + 1 end
  end
end
if asked > 0 and marked < tonumber(ARGV[1]) then
  call('HSET', lock, 'revoke', ARGV[1] .. '|' .. string.format('%.0f', now) .. '|' .. ARGV[2])
end
return { asked, now }
