-- SPDX-License-Identifier: Apache-2.0
-- Deletes first (allowed even when memory is full), wakes last. A clean release starts no lock-delay.
-- -> {released, now}
local released = release(ARGV[1])
wake(tonumber(ARGV[2]))
return { released, digits(now) }
