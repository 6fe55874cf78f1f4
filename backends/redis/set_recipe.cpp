// SPDX-License-Identifier: Apache-2.0
#include "redis/set_recipe.hpp"
#include "redis/record.hpp"
#include "redis_scripts/named_scripts.hpp"

namespace dlock::redis {

Result<Try> SetBackend::try_once(const Request& request) {
  const NamedKey key = named(request.key);
  const auto answer = client_->call(Command{"acquire",
                                            &scripts::set_acquire,
                                            {key.lock, key.fence},
                                            {request.owner.hex(), millis(request.ttl), request.identity.encode()},
                                            true},
                                    client_->options().replicas);
  if (!answer) return fail(answer.error());
  if (answer->grace_left > Duration{}) return in_grace(*answer);
  const std::string_view verdict = answer->reply.text_at(0);
  if (verdict == "granted") return granted(request, *answer, answer->sent);
  if (verdict == "held") return taken_before(request);
  const auto seen = verdict == "busy" && answer->reply.items.size() == 2 ? parse_look(answer->reply.items[1]) : std::nullopt;
  if (!seen) return fail(not_understood("acquire"));
  return busy(*seen);
}

}  // namespace dlock::redis
