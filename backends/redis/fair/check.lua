-- SPDX-License-Identifier: Apache-2.0
-- Is a grant with this token ('': any), of this owner ('': any), in force now? Changes nothing.
-- -> 1 or 0
local owner, token = ARGV[1], ARGV[2]
local records = owner == '' and redis.call('HVALS', holders) or { redis.call('HGET', holders, owner) or nil }
for _, record in ipairs(records) do
  local h = parse_holder(record)
  if h.deadline > now and (token == '' or h.token == token) then return 1 end
end
return 0
