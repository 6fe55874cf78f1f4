-- SPDX-License-Identifier: Apache-2.0
-- Behind state.lua (lock, id, now, belongs, value, digits, record, last_run, confirm, note_run,
-- keep).
-- ARGV: request, owner, ttl (ms), token ('0': not known), list, how the job ended (detach; '':
-- there was none)
--   -> {request, now, 'kept', token, since, meta}, or 'absent' or 'other' in place of 'kept', or
--      {request, now, 'list', known list}
local me, ttl, token, list = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if not belongs(me) then
  local _, kind = value()
  return { id, digits(now), kind == 'none' and 'absent' or 'other' }
end
local r = record()
if r.list ~= '' and r.list ~= list then return { id, digits(now), 'list', r.list } end
redis.call('PEXPIRE', lock, ttl)
if r.owner ~= me then  -- the record was lost, the lock was not
  r.counter = math.max(r.counter + 1, now)
  r.owner, r.token, r.since, r.meta = me, '0', digits(now), last_run(r.meta)
end
-- its vote came too late to be counted
if r.token == '0' and token ~= '0' then confirm(r, token) end
if r.token ~= '0' then r.list = list end
note_run(r, me, ARGV[6])
keep(r)
return { id, digits(now), 'kept', r.token, r.since, r.meta }
