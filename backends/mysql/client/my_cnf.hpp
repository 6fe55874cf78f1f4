// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include "core/error.hpp"

namespace dlock::mysql {

// The settings of ~/.my.cnf for every client: groups [client], [client-mariadb] and
// [client-server]. Nothing else of it is read: an init-command or a reconnect there must not change
// what a lock means.
struct ClientDefaults {
  std::optional<std::string> user, password, ssl_ca, ssl_cert, ssl_key;
};
ClientDefaults parse_client_defaults(std::string_view text);

// Of $HOME, or of the home in /etc/passwd. No file: nothing. Errc::config: others may write to it,
// or it has a password and others may read it.
Result<ClientDefaults> client_defaults();
Result<ClientDefaults> client_defaults_from(const std::string& path);

}  // namespace dlock::mysql
