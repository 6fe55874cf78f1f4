-- SPDX-License-Identifier: Apache-2.0
-- The newest start that was noted. Changes nothing.
-- -> {now, start or ''}
return { digits(now), redis.call('GET', KEYS[7]) or '' }
