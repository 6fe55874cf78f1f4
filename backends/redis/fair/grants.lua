-- SPDX-License-Identifier: Apache-2.0
-- Scripts that change a grant.

--- find_token: keys
-- Runs before release and renew. If the caller knows the owner but not the token (a handle), finds
-- the token of the newest grant of that owner.
if ARGV[2] == '' then
  local fields, newest = call('HGETALL', lock), 0
  for i = 1, #fields, 2 do
    local token = tonumber(fields[i])
    local mine = string.sub(fields[i + 1], 1, #ARGV[1] + 1) == ARGV[1] .. '|'
    if token and token > newest and mine then newest, ARGV[2] = token, fields[i] end
  end
end

--- note_run: keys
-- Records the last run of the key, from the record of its grant. release and renew call it after
-- their own first write, because when memory is full, Redis lets a script go on only if it has
-- already written. The record of a newer token stays, because the newest run counts if there are
-- several holders or if a request is late.
local function note_run(record, last, status)
  local granted, meta = string.match(record, '^%x*|%d+|%d+|[XSP]|%d+|%d+|(%d+)|(.*)$')
  if not status or status == '' or not granted then return end
  if (tonumber(string.match(last or '', '^%d+')) or 0) >= tonumber(ARGV[2]) then return end
  local run = { ARGV[2], string.format('%.0f', now), status, granted, meta }
  call('HSET', lock, 'last', table.concat(run, '|'))
end

--- renew: find_token note_run
-- Makes the lease end `ttl` from now, even if that is earlier than before. It never revives a lease
-- that has ended, and needs only the lock's key. It writes the expiry first, because when memory is
-- full, Redis lets a script go on only if it has already written.
-- KEYS lock   ARGV owner, token, ttl, the most that ttl and lock-delay may be together ('': any),
-- how the job ended (detach), what is new about the holder (Lease::ended)
-- -> {'kept', now, token, mode, slot, 1 if the holder was asked to stop, else 0}, {'lost', now} or
--    {'longer', now, lock-delay}: too long, and nothing was changed
local found = call('HMGET', lock, ARGV[2], 'expires', 'revoke', 'last')
if not found[1] then return { 'lost', now } end
local owner, deadline, rest, mode, slot, delay =
  string.match(found[1], '^(%x*)|(%d+)|%d+(|([XSP])|(%d+)|(%d+)|%d+|.*)$')
local expires = tonumber(found[2])
if not owner or not expires then return no_record() end
if owner ~= ARGV[1] or tonumber(deadline) <= now then return { 'lost', now } end
if ARGV[4] and ARGV[4] ~= '' and ARGV[3] + delay > tonumber(ARGV[4]) then
  return { 'longer', now, delay }
end
if ARGV[6] and ARGV[6] ~= '' then rest = string.gsub(rest, '&ended=.*$', '') .. '&' .. ARGV[6] end
local ends = now + tonumber(ARGV[3])
local record = owner .. '|' .. string.format('%.0f|%.0f', ends, now) .. rest
if expires - now > 7689600000000 and ends + delay - now < 7689600000000 then  -- 89 days
  call('PEXPIRE', lock, math.ceil((expires - now) / 1000) + 1000)
  call('HSET', lock, ARGV[2], record)
else
  local keep_until = math.max(expires, now + 7776000000000, ends + delay)  -- 90 days
  call('PEXPIRE', lock, math.ceil((keep_until - now) / 1000) + 1000)
  call('HSET', lock, ARGV[2], record, 'expires', string.format('%.0f', keep_until))
end
note_run(found[1], found[4], ARGV[5])
local marked = tonumber(string.match(found[3] or '', '^%d+')) or 0
return { 'kept', now, ARGV[2], mode, tonumber(slot), tonumber(ARGV[2]) <= marked and 1 or 0 }

--- release_free: find_token note_run
-- Releases this owner's grant with this token, if it is in force. The script deletes first, which
-- Redis allows even when memory is full, and wakes waiters last. A release starts no lock-delay.
-- KEYS lock [queue]   ARGV owner, token, claim, how the job ended ('': there was none)
-- -> {released, now}
local found = call('HMGET', lock, ARGV[2], 'wait', 'revoke', 'last')
local released = 0
if found[1] then
  local deadline = string.match(found[1], '^%x*|(%d+)|')
  if not deadline then return no_record() end
  if string.sub(found[1], 1, #ARGV[1] + 1) == ARGV[1] .. '|' and tonumber(deadline) > now then
    released = call('HDEL', lock, ARGV[2])
  end
end
if released == 1 then note_run(found[1], found[4], ARGV[4]) end
if released == 1 and found[3] then  -- a mark goes with the last grant that it names
  local marked, left = tonumber(string.match(found[3], '^%d+')) or 0, false
  local fields = call('HGETALL', lock)
  for i = 1, #fields, 2 do left = left or (tonumber(fields[i]) or math.huge) <= marked end
  if not left then call('HDEL', lock, 'revoke') end
end
if not found[2] or tonumber(found[2]) <= now or not queue then return { released, now } end

--- release: release_free state
-- The key may have waiters.
serve_queue(call('HGETALL', lock), tonumber(ARGV[3]))
return { released, now }

--- cancel: state
-- Removes this owner from the queue, and releases its grant, which a request without a reply may
-- have made. An owner is new for each attempt, so a late cancel cannot affect the next attempt.
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

--- force_release: state
-- For operators: removes the holder with this token ('': every holder), without lock-delay. Newest
-- token, start and last run stay.
-- KEYS lock [queue]   ARGV token, claim   -> {removed, now}
local token, removed, waits, left = ARGV[1], 0, false, {}
local fields = redis.pcall('HGETALL', lock)
if fields.err then
  if token ~= '' then return fields end
  return { call('DEL', lock), now }  -- even if a foreign value is in place of our record
end
for i = 1, #fields, 2 do
  if fields[i] == 'version' and fields[i + 1] ~= '1' then return other_layout(fields[i + 1]) end
end
for i = 1, #fields, 2 do
  local name = fields[i]
  if name == 'wait' then waits = (tonumber(fields[i + 1]) or 0) > now end
  if not fixed[name] and (token == '' or token == name) then
    local readable, h = pcall(parse_holder, name, fields[i + 1])
    call('HDEL', lock, name)
    if not readable or h.free_at > now then removed = removed + 1 end
  else
    table.insert(left, name)
    table.insert(left, fields[i + 1])
  end
end
if waits and queue then serve_queue(left, tonumber(ARGV[2])) end
return { removed, now }

--- revoke: keys
-- Asks the holders in force with this token or an older token to stop. The sender has read the
-- token from the lock, and tokens only rise. So a request that arrives after the end of those
-- grants, late or twice, finds no holder to ask and writes nothing. A mark that stays does not
-- concern later grants.
-- KEYS lock   ARGV token, who asks   -> {holders asked, now}
local fields, revoked, marked = call('HGETALL', lock), 0, 0
for i = 1, #fields, 2 do
  local name, value = fields[i], fields[i + 1]
  if name == 'version' and value ~= '1' then
    return other_layout(value)
  elseif name == 'revoke' then
    marked = tonumber(string.match(value, '^%d+')) or 0
  elseif string.find(name, '^%d+$') and tonumber(name) <= tonumber(ARGV[1]) then
    local deadline = tonumber(string.match(value, '^%x*|(%d+)|'))
    if deadline and deadline > now then revoked = revoked + 1 end
  end
end
if revoked > 0 and marked < tonumber(ARGV[1]) then
  call('HSET', lock, 'revoke', ARGV[1] .. '|' .. string.format('%.0f', now) .. '|' .. ARGV[2])
end
return { revoked, now }

--- note_start: find_token
-- If the grant is in force and the recorded start is the one that the caller has read, replaces it
-- by the new start. If the recorded start is already the new one, the request is a repetition. Then
-- the script writes the start again, so that the replicas get it.
-- KEYS lock   ARGV owner, token, the start that was read, the new one: 'at|keep until' or ''
-- -> {1: done, 0: no grant in force, 2: another start is recorded; now}
local found = call('HMGET', lock, ARGV[2], 'start', 'expires')
local owner, deadline = string.match(found[1] or '', '^(%x*)|(%d+)|')
if owner ~= ARGV[1] or tonumber(deadline) <= now then return { 0, now } end
local function needed(start)
  local note, keep_until = string.match(start, '^(%d+|(%d+))')
  return note and tonumber(keep_until) > now and note or ''
end
local noted = needed(found[2] or '')
if noted ~= needed(ARGV[3]) and noted ~= needed(ARGV[4]) then return { 2, now } end
if ARGV[4] == '' then
  call('HDEL', lock, 'start')
  return { 1, now }
end
local keep_until = tonumber(string.match(ARGV[4], '%d+$'))
local expires = math.max(tonumber(found[3]) or 0, keep_until)
call('HSET', lock, 'start', ARGV[4] .. '|' .. ARGV[2], 'expires', string.format('%.0f', expires))
call('PEXPIRE', lock, math.ceil((expires - now) / 1000) + 1000)
return { 1, now }
