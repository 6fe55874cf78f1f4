// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "redis/named/named_backend.hpp"

namespace dlock::redis {

// SETNX, then EXPIRE: two commands, and a crash between them leaves a lock for ever.
//
// 1. A takes the lock (SETNX) and dies. The lock has no end. The value of a dlock is
//    `dlock1:<owner>:<ttl in ms>`: any other dlock that waits sets the end of such a lock. A
//    foreign one stays until an operator removes it, or for `?stale_after=`.
// 2. A takes the lock and stalls; B sets its end, it ends, B takes it; A sets the end. So A does
//    that in a script that checks the value first: a bare EXPIRE could end B's lock before the time
//    that B relies on. The other programs' EXPIRE can.
class SetnxExpireBackend final : public NamedBackend {
 public:
  using NamedBackend::NamedBackend;
  Result<Try> try_once(const Request&) override;

 protected:
  std::string sign(const Owner& owner) const override {
    return std::string{mark} + owner.hex() + ":";
  }

 private:
  static constexpr std::string_view mark = "dlock1:";
  Result<Try> complete(const Request&, const NamedKey&, const std::string& value);
  Result<Try> mend(const NamedKey&, const Look&);

  struct Endless {
    std::string lock, value;
    Deadline since;
  };
  std::optional<Endless> endless_;  // the last foreign lock seen without an end
};

}  // namespace dlock::redis
