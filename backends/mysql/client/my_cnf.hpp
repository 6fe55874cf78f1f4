// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include "core/error.hpp"

namespace dlock::mysql {

// The settings of ~/.my.cnf for all clients: from the groups [client], [client-mariadb] and
// [client-server]. All other settings are ignored, because an init-command or a reconnect must not
// change what a lock means.
struct ClientDefaults {
  std::optional<std::string> user, password, ssl_ca, ssl_cert, ssl_key;
};
ClientDefaults parse_client_defaults(std::string_view text);

// Reads .my.cnf in $HOME or, without $HOME, in the home directory that /etc/passwd names. If there
// is no such file, nothing is set. Errc::config: others may write to the file, or it has a password
// and others may read it.
Result<ClientDefaults> client_defaults();
Result<ClientDefaults> client_defaults_from(const std::string& path);

}  // namespace dlock::mysql
