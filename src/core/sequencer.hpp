// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include "core/error.hpp"
#include "core/key.hpp"
#include "core/lease.hpp"

namespace dlock {

// What a job shows to a resource to prove its grant, as in Chubby: `v1:<family>.<recipe>:<percent-encoded key>:<X|S|P>:<token>`.
struct Sequencer {
  std::string family, recipe;
  Key key;
  Mode mode;
  FencingToken token;

  std::string text() const;
  static Result<Sequencer> parse(std::string_view text);  // Errc::usage
};

// What `acquire` prints: a secret with which the lease can be renewed and released from another process. One handle covers
// all keys of one acquire: `h1:<family>.<recipe>:<owner, 32 hex>[:<extra>]`; extra is what the recipe needs besides the owner
// (percent-encoded).
struct Handle {
  std::string family, recipe;
  Owner owner;
  std::string extra;

  std::string text() const;
  static Result<Handle> parse(std::string_view text);  // Errc::usage; the message never repeats the secret
};

// Decimal, 1 to 2^64-1, no sign, no leading zero. Errc::usage.
Result<FencingToken> parse_token(std::string_view text);

}  // namespace dlock
