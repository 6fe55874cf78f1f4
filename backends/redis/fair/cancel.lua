-- SPDX-License-Identifier: Apache-2.0
-- Leaves the queue, and gives back what an unanswered request may have been granted.
-- -> {waited, released, now}
local me, my_wake = ARGV[1], KEYS[7]
expire_waiters()
local waited = redis.call('ZSCORE', queue, me) and 1 or 0
drop_waiter(me)
redis.call('DEL', my_wake)
local released = release(me)
wake(tonumber(ARGV[2]))
return { waited, released, digits(now) }
