-- SPDX-License-Identifier: Apache-2.0
-- Changes nothing. ARGV: request -> {request, now, {seen}}
return { id, digits(now), seen(record()) }
