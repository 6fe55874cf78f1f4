-- SPDX-License-Identifier: Apache-2.0
-- Puts back the time that our GETSET has overwritten, if nobody has written since. -> 1 or 0
if value() ~= ARGV[1] then return 0 end
redis.call('SET', lock, ARGV[2])
return 1
