-- SPDX-License-Identifier: Apache-2.0
-- An operator's decision: the holder with this token ('': every holder) is out, without lock-delay. The fence stays.
-- -> {removed, now}
local token, removed = ARGV[1], 0
local readable, problem, found = pcall(inside)
if readable then
  for owner, h in pairs(found) do
    if token == '' or h.token == token then removed = removed + redis.call('HDEL', holders, owner) end
  end
elseif token == '' then  -- whatever it is that stands there in place of our record
  removed = redis.call('DEL', holders)
else
  error(problem)
end
wake(tonumber(ARGV[2]))
return { removed, digits(now) }
