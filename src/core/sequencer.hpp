// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>
#include "core/error.hpp"
#include "core/key.hpp"
#include "core/lease.hpp"

namespace dlock {

// What a job sends to a resource to prove its grant, as in Chubby:
// `v1:<family>.<recipe>:<percent-encoded key>:<X|S|P>:<token>`.
struct Sequencer {
  std::string family, recipe;
  Key key;
  Mode mode;
  FencingToken token;

  static Sequencer of(std::string_view family, std::string_view recipe, const Lease&);
  std::string text() const;
  static Result<Sequencer> parse(std::string_view text);  // Errc::usage
};

// The output of `acquire`: a secret with which another process can renew and release the lease. One
// handle covers all keys of one acquire: `h1:<family>.<recipe>:<owner, 32 hex>[:<extra>]`; extra is
// what the recipe needs besides the owner (percent-encoded). A key that got another owner while it
// was taken follows as `:<key>=<owner>[=<extra>]`.
struct Handle {
  std::string family, recipe;
  Owner owner;
  std::string extra{};
  struct Other {
    Key key;
    Owner owner;
    std::string extra;
  };
  std::vector<Other> others{};

  // `all`: at least one, taken together; the first one gives owner and extra.
  static Handle of(std::string_view family, std::string_view recipe, const std::vector<Lease>& all);
  // The data to renew, release and check `key`.
  Lease lease(const Key& key) const;

  std::string text() const;
  // Errc::usage; the message never repeats the secret
  static Result<Handle> parse(std::string_view text);
};

// Decimal, 1 to 2^64-1, no sign, no leading zero. Errc::usage.
Result<FencingToken> parse_token(std::string_view text);

}  // namespace dlock
