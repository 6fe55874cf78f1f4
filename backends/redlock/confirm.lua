-- SPDX-License-Identifier: Apache-2.0
-- Behind state.lua (lock, id, now, record, belongs, digits, confirm, keep).
-- Phase 2: writes the token back, as long as the vote is still the owner's. A master whose own
-- number is higher stores the token, but does not count: its number was not received when the token
-- was chosen, and the token is not above the numbers that others may have got.
-- ARGV: request, owner, token -> {request, now, 1 or 0}
local me, token = ARGV[2], ARGV[3]
local r = record()
if not belongs(me) or r.owner ~= me then return { id, digits(now), 0 } end
local counts = r.counter <= tonumber(token)
confirm(r, token)
keep(r)
return { id, digits(now), counts and 1 or 0 }
