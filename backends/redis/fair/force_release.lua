-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), keys.lua (lock, queue), state.lua (fixed, parse_holder,
-- look_after).
-- For operators: removes the holder with this token ('': every holder), without lock-delay. Fence,
-- start and last run stay.
-- KEYS lock [queue]   ARGV token, claim   -> {removed, now}
local token, removed, waits, left = ARGV[1], 0, false, {}
local fields = redis.pcall('HGETALL', lock)
if fields.err then
  if token ~= '' then return fields end
  return { call('DEL', lock), now }  -- even if a foreign value is in place of our record
end
for i = 1, #fields, 2 do
  if fields[i] == 'version' and fields[i + 1] ~= '1' then
    return redis.error_reply(
      'DLOCKLAYOUT ' .. lock .. ' has layout ' .. fields[i + 1]
        .. ', and this dlock knows layout 1')
  end
end
for i = 1, #fields, 2 do
  local name = fields[i]
  if name == 'wait' then waits = (tonumber(fields[i + 1]) or 0) > now end
  if not fixed[name] and (token == '' or token == name) then
    local readable, h = pcall(parse_holder, name, fields[i + 1])
    call('HDEL', lock, name)
    if not readable or h.free_at > now then removed = removed + 1 end
  else
    table.insert(left, name)
    table.insert(left, fields[i + 1])
  end
end
if waits and queue then look_after(left, tonumber(ARGV[2])) end
return { removed, now }
