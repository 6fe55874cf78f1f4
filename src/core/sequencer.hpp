// SPDX-License-Identifier: Apache-2.0
// What dlock prints and gives to jobs about a grant: the sequencer, which is public, and the
// handle, which is secret. They are values; only parsing can fail.
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
// handle covers all keys of one acquire: `h1:<family>.<recipe>:<owner, 32 hex>[:<extra>]`. The
// percent-encoded `extra` is what the recipe needs in addition to the owner. A key with another
// owner follows as `:<key>=<owner>[=<extra>]`.
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

  // `all`: one or more leases that were acquired together. The first lease supplies `owner` and
  // `extra`.
  static Handle of(std::string_view family, std::string_view recipe, const std::vector<Lease>& all);
  // Returns a Lease with which a Backend can renew, release and check `key`.
  Lease lease(const Key& key) const;

  std::string text() const;
  // Errc::usage: the message never contains the secret.
  static Result<Handle> parse(std::string_view text);
};

// Parses a decimal number from 1 to 2^64-1 without a sign or a leading zero; else Errc::usage.
Result<FencingToken> parse_token(std::string_view text);

}  // namespace dlock
