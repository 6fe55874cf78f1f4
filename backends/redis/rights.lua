-- SPDX-License-Identifier: Apache-2.0
--- rights
-- Finds the commands in ARGV that this user may not run. KEYS[1]: a key that nobody uses; it exists
-- only for a moment. -> {the refused commands, in one text; an error in writing, or ''}
local key = KEYS[1]
local arguments = {
  get = { key }, set = { key, '1', 'PX', '1000' }, del = { key }, pexpire = { key, '1000' },
  pttl = { key }, type = { key }, time = {}, setnx = { key, '1' },
  rpush = { key, '1' }, llen = { key },
  hmget = { key, 'f' }, hset = { key, 'f', '1' }, hdel = { key, 'g' }, hgetall = { key },
  zadd = { key, '1', 'm' }, zrem = { key, 'm' }, zremrangebyscore = { key, '0', '0' },
  zrange = { key, '0', '0' }, zrangebyscore = { key, '0', '0' }, zscore = { key, 'm' },
  zrevrangebyscore = { key, '0', '0' }, zcard = { key }, zcount = { key, '0', '0' },
  zrank = { key, 'm' }
}
-- The first write gives the key its type, so commands for other types then change nothing. The key
-- expires.
local first = 'hset'
for _, name in ipairs(ARGV) do if name == 'set' then first = 'set' end end
local written = redis.pcall(first, unpack(arguments[first]))
if first == 'hset' then redis.pcall('PEXPIRE', unpack(arguments.pexpire)) end
local writing = type(written) == 'table' and written.err or ''
-- Finds what servers of all versions reply to a user without the right.
local function denies(err)
  for _, text in ipairs({ 'NOPERM', 'permission', 'ACL', "can't run" }) do
    if string.find(err, text, 1, true) then return true end
  end
  return false
end
local refused = {}
for _, name in ipairs(ARGV) do
  local answer = name == first and written or redis.pcall(name, unpack(arguments[name]))
  local err = type(answer) == 'table' and answer.err
  if err and denies(err) then
    table.insert(refused, name)
    if name == first then writing = '' end
  end
end
redis.pcall('DEL', key)
return { table.concat(refused, ' '), writing }
