-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), keys.lua (lock, queue).
-- Before release and renew, if the caller knows its owner but not its token (a handle): the newest
-- grant of that owner.
if ARGV[2] == '' then
  local fields, newest = call('HGETALL', lock), 0
  for i = 1, #fields, 2 do
    local token = tonumber(fields[i])
    local mine = string.sub(fields[i + 1], 1, #ARGV[1] + 1) == ARGV[1] .. '|'
    if token and token > newest and mine then newest, ARGV[2] = token, fields[i] end
  end
end
