-- SPDX-License-Identifier: Apache-2.0
-- With a token: if that grant has the vote. Without ('0'): whatever is there, whoever made it. ARGV: request, token -> {request, now, 1 or 0}
if ARGV[2] ~= '0' then
  local r = record()
  if r.token ~= ARGV[2] or value() ~= r.owner then return { id, digits(now), 0 } end
end
local removed = redis.call('DEL', lock)
if removed == 1 then wake() end
return { id, digits(now), removed }
