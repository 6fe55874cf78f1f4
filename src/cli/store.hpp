// SPDX-License-Identifier: Apache-2.0
// From --backend and --recipe to an open Backend.
#pragma once
#include <memory>
#include "cli/options.hpp"
#include "core/backend.hpp"
#include "core/sequencer.hpp"
#include "core/url.hpp"

namespace dlock::cli {

struct Store {
  Url url;
  const BackendFactory* factory;
  const Traits* traits;

  Settings secrets;  // password and TLS, and nothing else of it

  std::string called;  // "--backend" or "DLOCK_BACKEND", for what only open() can find wrong with the URL
  Errc blame;

  Result<std::unique_ptr<Backend>> open(const Settings&) const;
};

// Flag, URL item, environment, default: in this order. Errc::usage or Errc::config, by where the wrong text came from.
Result<Store> choose_store(const Options&);

// The same, opened for the thread that calls: for verbs that ask once and end.
struct OpenStore {
  Store store;
  std::unique_ptr<Backend> backend;
};
Result<OpenStore> open_store(const Options&);

// --handle (literal, - or @FILE), or DLOCK_HANDLE if it is a handle of this store. nullopt: none was given. The handle is
// a secret: no message repeats it. Errc::usage, or Errc::config for a file that cannot be read or holds no handle.
Result<std::optional<Handle>> find_handle(const Options&, const Store&);

// Errc::usage where --handle is required and there is none.
Result<Handle> require_handle(const Options&, const Store&);

Result<std::vector<Key>> parse_keys(const Options&);  // --key, in the order given; the rules have seen that there is one

}  // namespace dlock::cli
