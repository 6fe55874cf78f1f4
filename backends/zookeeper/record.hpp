// SPDX-License-Identifier: Apache-2.0
// The data of dlock's nodes. People read it; of a permit it also says which slot it has.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include "core/identity.hpp"
#include "core/lease.hpp"

namespace dlock::zookeeper {

// `dlock1 ID TTL_US LIMIT SLOT IDENTITY`: ID is the begin of the owner id, LIMIT and SLOT are `-` where there is none.
struct Record {
  std::string id;
  Duration ttl{};
  std::optional<unsigned> limit, slot;  // slot: it holds this permit
  Identity who;

  static Record of(const Request&);
  std::string text() const;
  static std::optional<Record> parse(std::string_view);  // nullopt: not dlock's
};

// What Curator writes into a holder's node to ask it to release.
inline constexpr std::string_view revoke_word = "__REVOKE__";

}  // namespace dlock::zookeeper
