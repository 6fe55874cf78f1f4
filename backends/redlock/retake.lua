-- SPDX-License-Identifier: Apache-2.0
-- Behind state.lua (lock, id, now, value, digits, record, confirm, keep).
-- The vote of a master that has none of ours (it restarted, or was away), for a grant that a
-- majority has confirmed a moment ago. Not later than ARGV[5] by this master's own clock: a request
-- that was long under way must not take the vote for a grant that may be over.
-- ARGV: request, owner, ttl (ms), token, not after (us), since, meta, list
--   -> {request, now, 1 or 0}
local me, ttl, token, not_after = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local since, meta, list = ARGV[6], ARGV[7], ARGV[8]
local _, kind = value()
if now > not_after or kind ~= 'none' then return { id, digits(now), 0 } end
local r = record()
if r.list ~= '' and r.list ~= list then return { id, digits(now), 0 } end
r.owner, r.since, r.meta, r.list = me, since, meta, list
confirm(r, token)
keep(r)
redis.call('SET', lock, me, 'PX', ttl)
return { id, digits(now), 1 }
