// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "redis/named_recipe.hpp"

namespace dlock::redis {

// SETNX of the time at which the lock ends; when that has passed, takeover by GETSET: whoever gets the old time back has it. Its weaknesses:
//
// 1. The times are the clients': a client whose clock is ahead takes over from a holder that is in its right.
// 2. A and B see the time passed. A's GETSET returns the old one: A has the lock. B's GETSET returns A's: B has lost, and has overwritten A's time
//    with its own. A dlock that loses puts the time back; another program does not, and then A finds a value that is not its own and must take
//    the lock for lost.
// 3. The value tells no owner. dlock's record beside it does, for dlocks.
// 4. The answer to GETSET is lost: the value in the store may be ours or that of somebody with the same time. It is nobody's: it ends by itself.
// The server never deletes such a lock: after a crash the last time stays until somebody takes over.
class GetsetBackend final : public NamedBackend {
 public:
  using NamedBackend::NamedBackend;
  Result<Try> try_once(const Request&) override;
  Result<Renewal> renew(const Lease&, Duration ttl) override;

 protected:
  std::string sign(const Owner&) const override { return ""; }
  std::vector<std::string> release_words(const Owner&) const override;
  std::optional<Duration> left(const Look&) const override;

 private:
  std::string time_in(Duration ttl) const;                      // of our clock; one unit more, as the algorithm asks
  std::optional<Micros> time_of(std::string_view value) const;  // nothing: no time
  Result<Try> won(const Request&, const NamedKey&, const std::string& value, Deadline sent);
};

}  // namespace dlock::redis
