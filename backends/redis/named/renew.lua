-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), state.lua (lock, fence, value, record, belongs, next_token, keep,
-- digits).
-- -> {'kept', token} or {'lost'}
local me, sign, ttl = ARGV[1], ARGV[2], ARGV[3]
local v = value()
local r = record()
if not belongs(v, r, me, sign) then return { 'lost' } end
redis.call('PEXPIRE', lock, ttl)
if not fence then return { 'kept', '0' } end
if not (r and r.owner == me and r.value == v) then  -- the record was lost, the lock was not
  r = { token = next_token(r), since = digits(now), meta = '' }
end
keep(r.token, me, v, r.since, r.meta)
return { 'kept', r.token }
