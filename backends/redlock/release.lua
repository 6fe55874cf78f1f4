-- SPDX-License-Identifier: Apache-2.0
-- Behind state.lua (lock, id, now, belongs, digits, record, note_run, keep, wake).
-- Releases the vote; also after an attempt that failed. Deletes first: Redis lets a script that has
-- written go on when memory is full. A record that cannot be read hinders no release.
-- ARGV: request, owner, '1': wake one waiter, how the job ended ('': there was none)
-- -> {request, now, 1 or 0}
if not belongs(ARGV[2]) then return { id, digits(now), 0 } end
redis.call('DEL', lock)
if (ARGV[4] or '') ~= '' then
  local readable, r = pcall(record)
  if readable and note_run(r, ARGV[2], ARGV[4]) then keep(r) end
end
if ARGV[3] == '1' then wake() end
return { id, digits(now), 1 }
