// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include "cli/options/options.hpp"
#include "core/backend.hpp"
#include "core/url.hpp"

namespace dlock::cli {

// The items `password_file` and `auth_file` of a URL: files of secrets for this backend alone, as
// `dlock bench` needs with several.
struct SecretFiles {
  std::string password, auth;  // paths; empty: not given
};
SecretFiles take_secret_files(Url&);  // removes the items: the backends do not know them

// The password: --password-file, then the URL's item, then its password (left empty here), then
// DLOCK_PASSWORD, then password-file of the environment or a configuration file. The credentials
// for ZooKeeper likewise. Errc::usage or Errc::config: a file that cannot be read or that others
// may read.
Result<Secrets> find_secrets(const Options&, const Url&, const SecretFiles&);

}  // namespace dlock::cli
