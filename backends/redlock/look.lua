-- SPDX-License-Identifier: Apache-2.0
-- Behind state.lua (lock, id, now, digits, seen, record).
-- Changes nothing. ARGV: request -> {request, now, {seen}}
return { id, digits(now), seen(record()) }
