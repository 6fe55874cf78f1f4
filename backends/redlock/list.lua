-- SPDX-License-Identifier: Apache-2.0
-- Behind state.lua (lock, id, now, record, belongs, digits, keep).
-- Stores the list of masters of a grant that a majority has confirmed, as long as the vote is still
-- its owner's: so a late copy of this writes nothing after the grant. With ARGV[5] == '1' another
-- list that is known here is only marked, after which neither list can grant.
-- ARGV: request, owner, token, list, mark -> {request, now, 1 or 0}
local me, token, list, mark = ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'
local r = record()
if not belongs(me) or r.owner ~= me or r.token ~= token then return { id, digits(now), 0 } end
if not mark then
  r.list = list
elseif r.list ~= '' and r.list ~= list and string.sub(r.list, 1, 1) ~= '?' then
  r.list = '?' .. r.list
end
keep(r)
return { id, digits(now), 1 }
