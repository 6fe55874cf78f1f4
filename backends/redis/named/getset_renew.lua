-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), state.lua (lock, value, record, belongs, keep).
-- Replaces our time by a new one. ARGV: owner, new value, microseconds per unit of a value. ->
-- {'kept', token} or {'lost'}
local me, new, unit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local v = value()
local r = record()
local ends = belongs(v, r, me, '') and tonumber(v)
if not ends or ends * unit <= now then return { 'lost' } end
redis.call('SET', lock, new)
keep(r.token, me, new, r.since, r.meta)
return { 'kept', r.token }
