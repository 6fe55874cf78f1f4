// SPDX-License-Identifier: Apache-2.0
// Decides which passwords, credentials and TLS files a backend gets.
//
// Secrets of flags and variables are for the backend in use. Secrets of a table in a configuration
// file are for the server that the same table names, wherever the backend in use was named. No
// other server ever gets them.
#pragma once
#include <span>
#include <string>
#include "cli/options/options.hpp"
#include "core/url.hpp"
#include "store/factory.hpp"

namespace dlock::cli {

// The URL items `password_file`, `auth_file` and `sentinel_password_file`: secret files for only
// one backend. `dlock bench` needs them when it measures several.
struct SecretFiles {
  std::string password, auth, sentinels;  // paths; empty if not given
};
SecretFiles extract_secret_files(Url&);  // also removes the items, which backends do not know

struct Store;

// Refuses a secret that none of these backends can use. It refuses nothing if all are file stores,
// which need no secret. The Error is Errc::config if the secret was named by a variable or a file,
// otherwise Errc::usage.
Result<void> all_useful(const StoreOptions&, std::span<const Store>);

// Returns the secrets that the URL's backend can use. The first source that has a password wins:
// --password-file, the URL's item, the URL's password (left empty here), DLOCK_PASSWORD,
// DLOCK_PASSWORD_FILE, password-file in a configuration file. For the sentinels' password, the
// order is: the URL's item, DLOCK_SENTINEL_PASSWORD. ZooKeeper's credentials have the same order as
// the password. Errc::usage or Errc::config: a file is unreadable, or others may read it.
Result<Secrets> find_secrets(const StoreOptions&, const Store&);

// Returns a text that names the secrets in tables for servers other than the URL's. Empty: there
// are none.
std::string unused_secrets(const StoreOptions&, const Url&);
std::string unused_secrets(const StoreOptions&);  // the same, for the backend in use

}  // namespace dlock::cli
