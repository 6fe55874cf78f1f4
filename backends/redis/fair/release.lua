-- SPDX-License-Identifier: Apache-2.0
-- Behind release_free.lua and state.lua: there may be waiters.
look_after(call('HGETALL', lock), tonumber(ARGV[3]))
return { released, now }
