-- SPDX-License-Identifier: Apache-2.0
-- Releases the vote; also after an attempt that failed. ARGV: request, owner, '1': wake one waiter
-- -> {request, now, 1 or 0}
if not belongs(ARGV[2]) then return { id, digits(now), 0 } end
redis.call('DEL', lock)
if ARGV[3] == '1' then wake() end
return { id, digits(now), 1 }
