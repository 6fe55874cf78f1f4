// SPDX-License-Identifier: Apache-2.0
// From --backend and --recipe to an open Backend.
#pragma once
#include <memory>
#include "cli/options/options.hpp"
#include "cli/secrets.hpp"
#include "core/factory.hpp"
#include "core/sequencer.hpp"
#include "core/url.hpp"

namespace dlock::cli {

struct Store {
  Url url;
  const BackendFactory* factory;
  const Traits* traits;

  SecretFiles files;  // of the URL
  Secrets secrets;

  // "--backend" or "DLOCK_BACKEND", for errors that only open() can find in the URL
  std::string called;
  Errc blame;

  Settings with_secrets(Settings) const;
  Result<std::unique_ptr<Backend>> open(const Settings&) const;  // with the secrets
};

// Flag, URL item, environment, default: in this order. Errc::usage or Errc::config, by the source
// of the wrong text.
Result<Store> choose_store(const Options&);

// The same, opened for the calling thread: for verbs that send one request and end.
struct OpenStore {
  Store store;
  std::unique_ptr<Backend> backend;
  std::string options;  // that name it in a command for sh, as this one was given them
};
Result<OpenStore> open_store(const Options&);

// Where the locks are, for comparison with another dlock's: the URL with its prefix, without user,
// secrets and the items that only say how.
std::string place_of(const Store&);

// Blames --ttl when it is shorter than shortest_ttl and the URL does not permit that.
Result<void> long_enough(const Options&, const Store&);

// --key, in the given order; the rules have checked that there is one
Result<std::vector<Key>> parse_keys(const Options&);

}  // namespace dlock::cli
