-- SPDX-License-Identifier: Apache-2.0
-- Which of the commands ARGV this user may not run. KEYS[1]: nobody's; it is there for a moment only.
-- -> {the refused, in one text; what is wrong with writing, or ''}
local key = KEYS[1]
local words = {
  get = { key }, set = { key, '1', 'PX', '1000' }, del = { key }, pexpire = { key, '1000' }, pttl = { key }, type = { key }, time = {},
  setnx = { key, '1' }, getset = { key, '1' }, rpush = { key, '1' }, hget = { key, 'f' }, hset = { key, 'f', '1' }, hsetnx = { key, 'f', '1' },
  hdel = { key, 'f' }, hgetall = { key }, hvals = { key }, zadd = { key, '1', 'm' }, zrem = { key, 'm' }, zrange = { key, '0', '0' },
  zrevrange = { key, '0', '0' }, zrangebyscore = { key, '0', '0' }, zscore = { key, 'm' }, zcard = { key }, zrank = { key, 'm' },
  sadd = { key, 'm' }, srem = { key, 'm' }, scard = { key }, llen = { key }
}
-- As long as the key is the string that SET made, what is for other types changes nothing; and it ends by itself.
local written = redis.pcall('SET', unpack(words.set))
local writing = written.err or ''
local refused = {}
for _, name in ipairs(ARGV) do
  local answer = name == 'set' and written or redis.pcall(name, unpack(words[name]))
  local err = type(answer) == 'table' and answer.err
  if err and (string.find(err, 'NOPERM') or string.find(err, 'permission') or string.find(err, 'ACL') or string.find(err, "can't run")) then
    table.insert(refused, name)
    if name == 'set' then writing = '' end
  end
end
redis.pcall('DEL', key)
return { table.concat(refused, ' '), writing }
