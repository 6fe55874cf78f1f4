-- SPDX-License-Identifier: Apache-2.0
-- Behind state.lua (lock, id, now, record, belongs, digits, keep).
-- Asks the owner of the vote to stop. The mark is in the part of the record that belongs to this
-- vote: the next vote replaces it. A request that arrives late or twice names an owner, which has
-- no later attempt, so it marks no later vote.
-- ARGV: request, owner -> {request, now, 1 or 0}
local r = record()
if not belongs(ARGV[2]) or r.owner ~= ARGV[2] then return { id, digits(now), 0 } end
if not string.find('&' .. r.meta .. '&', '&revoked=1&', 1, true) then
  r.meta = r.meta .. '&revoked=1'
  keep(r)
end
return { id, digits(now), 1 }
