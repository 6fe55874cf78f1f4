-- SPDX-License-Identifier: Apache-2.0
-- The newest start that was noted. Changes nothing. KEYS lock   -> {now, start or ''}
local at, keep_until = string.match(call('HMGET', lock, 'start')[1] or '', '^(%d+)|(%d+)|')
return { now, at and tonumber(keep_until) > now and at or '' }
