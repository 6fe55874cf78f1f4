-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), state.lua (lock, value, record).
-- With a token: if dlock's grant with this token is in force. Without: any value, from any program.
-- -> 1 or 0
local token = ARGV[1]
if token ~= '' then
  local r = record()
  if not r or r.token ~= token or value() ~= r.value then return 0 end
end
return redis.call('DEL', lock)
