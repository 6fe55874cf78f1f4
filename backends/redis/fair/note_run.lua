-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now), keys.lua (lock, queue), find_token.lua (the token in ARGV[2]).
-- Before release and renew, which call it behind their own first write: Redis lets a script that
-- has written go on when memory is full.
-- The last run of the key, from the record of the grant that it ran under. One with a newer token
-- that is there already stays: of several holders, or after a late message, the newest counts.
local function note_run(record, last, status)
  local granted, meta = string.match(record, '^%x*|%d+|%d+|[XSP]|%d+|%d+|(%d+)|(.*)$')
  if not status or status == '' or not granted then return end
  if (tonumber(string.match(last or '', '^%d+')) or 0) >= tonumber(ARGV[2]) then return end
  local run = { ARGV[2], string.format('%.0f', now), status, granted, meta }
  call('HSET', lock, 'last', table.concat(run, '|'))
end
