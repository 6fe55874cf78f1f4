-- SPDX-License-Identifier: Apache-2.0
-- Behind state.lua (lock, id, now, record, digits, value, seen, last_run, keep).
-- Phase 1: this master's vote, if it is free, and a number higher than all that it has given. A
-- repeated request of its owner gets the same vote. A client with another list of masters than the
-- one known here gets no vote, unless it is about to change it (ARGV[6] == '1').
-- ARGV: request, owner, ttl (ms), meta, list, change
--   -> {request, now, 'granted', number, token or '0', known list}, or {request, now, 'busy',
--      {seen}}, or {request, now, 'list', known list}
local me, ttl, meta, list, change = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] == '1'
local r = record()
if r.list ~= '' and r.list ~= list and not change then
  return { id, digits(now), 'list', r.list }
end
local v, kind = value()
if v == me and r.owner == me then
  redis.call('PEXPIRE', lock, ttl)
  return { id, digits(now), 'granted', digits(r.counter), r.token, r.list }
end
if v ~= me and kind ~= 'none' then return { id, digits(now), 'busy', seen(r) } end
r.counter = math.max(r.counter + 1, now)
r.owner, r.token, r.since, r.meta = me, '0', digits(now), meta .. last_run(r.meta)
keep(r)
redis.call('SET', lock, me, 'PX', ttl)
return { id, digits(now), 'granted', digits(r.counter), '0', r.list }
