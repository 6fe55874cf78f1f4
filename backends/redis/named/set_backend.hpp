// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "redis/named/named_backend.hpp"

namespace dlock::redis {

// `SET key owner NX PX ttl`, and compare-and-delete: as redis-py, redsync, node-redlock and many
// others do on one server. The value is the owner in hex, so a request of ours whose reply was lost
// is recognised. Tokens order the grants of dlock; other clients have none.
class SetBackend final : public NamedBackend {
 public:
  using NamedBackend::NamedBackend;
  Result<Try> try_once(const Request&) override;

 protected:
  std::string sign(const Owner& owner) const override { return owner.hex(); }
};

}  // namespace dlock::redis
