-- SPDX-License-Identifier: Apache-2.0
-- The lease ends `ttl` from now, later or earlier than before. One that has ended is never revived.
-- -> {'kept', now, token, mode, slot} or {'lost', now}
local me, ttl, claim = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local record = redis.call('HGET', holders, me)
local h = record and parse_holder(record)
local kept = h and h.deadline > now
if kept then
  h.since, h.deadline = digits(now), now + ttl
  redis.call('HSET', holders, me, format_holder(h))
  at_least(holders, ttl + h.delay)
  redis.call('PEXPIRE', fence, fence_kept)
end
wake(claim)
if not kept then return { 'lost', digits(now) } end
return { 'kept', digits(now), h.token, h.mode, h.slot }
