// SPDX-License-Identifier: Apache-2.0
#include "redis/named/set_backend.hpp"
#include "redis/fair/fair_record.hpp"
#include "redis_scripts/named_scripts.hpp"

namespace dlock::redis {

Result<Try> SetBackend::try_once(const Request& request) {
  const NamedKey key = named(request.key);
  const auto answer =
      client_->call(Command{"acquire",
                            &scripts::set_acquire,
                            {key.lock, key.fence},
                            {request.owner.hex(), millis(request.ttl), request.identity.encode()},
                            Command::InGrace::withheld},
                    client_->options().replicas);
  if (!answer) return fail(answer.error());
  return tried(request, *answer, answer->sent);
}

}  // namespace dlock::redis
