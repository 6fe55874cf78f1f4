-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), keys.lua (lock, queue), find_token.lua, note_run.lua,
-- release_free.lua (released), state.lua (look_after).
-- There may be waiters.
look_after(call('HGETALL', lock), tonumber(ARGV[3]))
return { released, now }
