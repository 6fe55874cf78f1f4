// SPDX-License-Identifier: Apache-2.0
// Which passwords, credentials and TLS files are meant for a backend.
//
// Those of flags and variables are for the backend in use. Those of a table of a configuration file
// are for the server that the same table names, whoever names the backend in use: another one never
// gets them.
#pragma once
#include <span>
#include <string>
#include "cli/options/options.hpp"
#include "core/url.hpp"
#include "store/factory.hpp"

namespace dlock::cli {

// The items `password_file`, `auth_file` and `sentinel_password_file` of a URL: files of secrets
// for this backend alone, as `dlock bench` needs with several.
struct SecretFiles {
  std::string password, auth, sentinels;  // paths; empty: not given
};
SecretFiles extract_secret_files(Url&);  // removes the items: the backends do not know them

struct Store;

// Refuses what is given and none of these backends can use, except where all are without secrets
// (files): Errc::usage, or Errc::config for a variable or a file.
Result<void> all_useful(const Options&, std::span<const Store>);

// Of what the URL can use. The password: --password-file, then the URL's item, then its password
// (left empty here), then DLOCK_PASSWORD, then password-file of the environment or a configuration
// file. That of sentinels: the URL's item, then DLOCK_SENTINEL_PASSWORD. The same
// holds for the credentials of ZooKeeper. Errc::usage or Errc::config: a file that cannot be read,
// or that others may read.
Result<Secrets> find_secrets(const Options&, const Store&);

// The values of tables that are for another server than this; empty: there are none.
std::string unused_secrets(const Options&, const Url&);
std::string unused_secrets(const Options&);  // of the backend in use

}  // namespace dlock::cli
