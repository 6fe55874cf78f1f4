-- SPDX-License-Identifier: Apache-2.0
-- Phase 1: this master's vote, if it is free, and a number higher than all it has given. Asked by its owner again it is the same vote.
-- ARGV: request, owner, ttl (ms), meta -> {request, now, 'granted', number, token or '0'} or {request, now, 'busy', {seen}}
local me, ttl, meta = ARGV[2], ARGV[3], ARGV[4]
local v, kind = value()
local r = record()
if v == me and r.owner == me then
  redis.call('PEXPIRE', lock, ttl)
  return { id, digits(now), 'granted', digits(r.counter), r.token }
end
if v ~= me and kind ~= 'none' then return { id, digits(now), 'busy', seen(r) } end
r.counter = math.max(r.counter + 1, now)
r.owner, r.token, r.since, r.meta = me, '0', digits(now), meta
keep(r)
redis.call('SET', lock, me, 'PX', ttl)
return { id, digits(now), 'granted', digits(r.counter), '0' }
