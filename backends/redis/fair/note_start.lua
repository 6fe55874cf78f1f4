-- SPDX-License-Identifier: Apache-2.0
-- Notes when a job was started, if the grant of its owner is in force: ARGV owner, start ('': forget it), milliseconds to keep the note.
-- -> {1 or 0, now}
local record = redis.call('HGET', holders, ARGV[1])
if not record or parse_holder(record).deadline <= now then return { 0, digits(now) } end
if ARGV[2] == '' then redis.call('DEL', KEYS[7]) else redis.call('SET', KEYS[7], ARGV[2], 'PX', ARGV[3]) end
return { 1, digits(now) }
