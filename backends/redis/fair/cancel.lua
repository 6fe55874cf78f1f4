-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), keys.lua (lock, queue), state.lua (the rest).
-- Leaves the queue, and releases what an unanswered request of this owner may have been granted. An
-- owner is new for each attempt, so a late cancel cannot hit the next one.
-- KEYS lock [queue]   ARGV owner, mode, limit, meta, claim   -> {waited, released, now}
local fields, left = call('HGETALL', lock), {}
local wait_until, released, waited = 0, 0, 0
for i = 1, #fields, 2 do
  local name, mine = fields[i], false
  if name == 'wait' then
    wait_until = tonumber(fields[i + 1]) or 0
  elseif not fixed[name] then
    local h = parse_holder(name, fields[i + 1])
    mine = h.owner == ARGV[1] and h.deadline > now
  end
  if mine then
    released = released + call('HDEL', lock, name)
  else
    table.insert(left, name)
    table.insert(left, fields[i + 1])
  end
end
if not queue then return { 0, released, now } end
local ticket = call('ZSCORE', queue, table.concat(ARGV, '|', 1, 4))
if not ticket and wait_until <= now then return { 0, released, now } end
expire_waiters()
if ticket and size > 0 then
  if call('ZSCORE', queue, 'l' .. ticket) then waited = 1 end
  drop(ticket)
  redis.pcall('DEL', wake .. ARGV[1]) -- a wake-up that this waiter did not get
end
invite(inside(left), tonumber(ARGV[5]))
if wait_until > 0 and not waiter_at(0) then call('HDEL', lock, 'wait') end
return { waited, released, now }
