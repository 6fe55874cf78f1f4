-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), keys.lua (lock, queue).
-- The newest start that was noted. Changes nothing. KEYS lock   -> {now, start or '', keep until}
local at, keep_until = string.match(call('HMGET', lock, 'start')[1] or '', '^(%d+)|(%d+)')
if not at or tonumber(keep_until) <= now then at, keep_until = '', '' end
return { now, at, keep_until }
