-- SPDX-License-Identifier: Apache-2.0
-- Everything about one key, at most ARGV[1] holders and waiters. Changes nothing.
-- -> {now, fence or '', holder count, {owner, record, ...}, waiter count, {owner, record, ...}}
local most = tonumber(ARGV[1])
local all, in_force = redis.call('HGETALL', holders), {}
for i = 1, #all, 2 do
  if parse_holder(all[i + 1]).free_at > now and #in_force < 2 * most then
    table.insert(in_force, string.sub(all[i], 1, 8))
    table.insert(in_force, all[i + 1])
  end
end
local waiting = {}
for _, owner in ipairs(redis.call('ZRANGE', queue, 0, most - 1)) do
  if tonumber(redis.call('ZSCORE', alive, owner) or '0') > now then
    table.insert(waiting, string.sub(owner, 1, 8))
    table.insert(waiting, redis.call('HGET', waiters, owner) or '')
  end
end
return { digits(now), redis.call('GET', fence) or '', #all / 2, in_force, redis.call('ZCARD', queue), waiting }
