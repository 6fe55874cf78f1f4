-- SPDX-License-Identifier: Apache-2.0
-- Behind clock.lua (call, now).
-- Without a queue (slot of a cluster that is being moved) a script does what the lock alone allows.
local lock, queue = KEYS[1], KEYS[2]
