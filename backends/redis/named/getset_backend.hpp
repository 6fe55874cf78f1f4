// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "redis/named/named_backend.hpp"

namespace dlock::redis {

// SETNX of the time at which the lock ends; when that has passed, takeover by GETSET: the client
// that gets the old time back has it. A dlock does both in one script, so it never overwrites a
// time that has not passed. The weaknesses of the algorithm:
//
// 1. The times are the clients': a client whose clock is ahead takes over from a valid holder.
// 2. A and B see the time passed. A's GETSET returns the old one: A has the lock. B's GETSET
//    returns A's: B has lost, and has overwritten A's time with its own. If B is another program, A
//    finds a value that is not its own and must consider its lock lost.
// 3. The value does not name its owner. dlock's record beside it does, for dlocks.
// The server never deletes such a lock: after a crash the last time stays until another takes over.
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
  // of our clock, plus one unit, as the algorithm demands
  std::string time_in(Duration ttl) const;
  std::optional<Micros> time_of(std::string_view value) const;  // nothing: not a time
};

}  // namespace dlock::redis
