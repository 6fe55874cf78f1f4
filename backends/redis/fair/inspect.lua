-- SPDX-License-Identifier: Apache-2.0
-- Scripts that change nothing.

--- check: keys
-- Returns whether a grant with this token ('': any), of this owner ('': any), is in force now.
-- KEYS lock   ARGV owner, token   -> 1 or 0
local function in_force(record)
  local owner, deadline = string.match(record or '', '^(%x*)|(%d+)|')
  return owner and tonumber(deadline) > now and (ARGV[1] == '' or owner == ARGV[1])
end
local found = call('HMGET', lock, 'version', ARGV[2])
if found[1] and found[1] ~= '1' then return other_layout(found[1]) end
if ARGV[2] ~= '' then return string.find(ARGV[2], '^%d+$') and in_force(found[2]) and 1 or 0 end
local fields = call('HGETALL', lock)
for i = 1, #fields, 2 do
  if string.find(fields[i], '^%d+$') and in_force(fields[i + 1]) then return 1 end
end
return 0

--- inspect: state
-- Returns everything about one key, with at most ARGV[1] holders and waiters. Holders in force come
-- first, and then holders that have ended and were not removed yet. KEYS lock [queue]
-- -> {now, fence, holder count, {holder, ...}, waiter count, {waiter, ...}, revoke, last, start}
--    An owner is cut to its first digits. fence, revoke, last and start: '' if there is none
local most = tonumber(ARGV[1])
local fields, count, in_force, ended = call('HGETALL', lock), 0, {}, {}
local known, start = { fence = '', revoke = '', last = '' }, ''
for i = 1, #fields, 2 do
  local name, value = fields[i], fields[i + 1]
  if name == 'version' and value ~= '1' then
    return other_layout(value)
  elseif known[name] then
    known[name] = value
  elseif name == 'start' then
    local at, keep_until = string.match(value, '^(%d+)|(%d+)|')
    if at and tonumber(keep_until) > now then start = at end
  elseif not fixed[name] then
    local h = parse_holder(name, value)
    count = count + 1
    local list = h.free_at > now and in_force or ended
    if #list < most then table.insert(list, shown(h)) end
  end
end
for _, h in ipairs(ended) do
  if #in_force < most then table.insert(in_force, h) end
end
local waiting, waiters = {}, 0
if queue then
  local alive = {}
  local from = string.format('%.1f', now + 0.6)
  for _, member in ipairs(call('ZRANGEBYSCORE', queue, from, '+inf', 'LIMIT', 0, 2 * most)) do
    alive[member] = true
  end
  waiters = call('ZCOUNT', queue, '-inf', border)
  local found = {}
  if waiters > 0 then
    found = call('ZRANGE', queue, 0, math.min(waiters, most) - 1, 'WITHSCORES')
  end
  for i = 1, #found, 2 do
    if alive['l' .. found[i + 1]] then
      local rest = string.match(found[i], '|.*$') or ''
      table.insert(waiting, string.sub(found[i], 1, 8) .. rest)
    end
  end
end
return { now, known.fence, count, in_force, waiters, waiting, known.revoke, known.last, start }

--- starts: keys
-- Returns the newest start that was recorded. KEYS lock   -> {now, start or '', keep until}
local at, keep_until = string.match(call('HMGET', lock, 'start')[1] or '', '^(%d+)|(%d+)')
if not at or tonumber(keep_until) <= now then at, keep_until = '', '' end
return { now, at, keep_until }
