-- SPDX-License-Identifier: Apache-2.0
-- The server's clock in microseconds, the only clock that decides anything. In a file of its own so that a test can put
-- another clock before the same text.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
