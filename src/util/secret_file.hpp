// SPDX-License-Identifier: Apache-2.0
// Files of secrets: a regular file, ours or root's, that no other user can read, and no link.
#pragma once
#include <string>
#include "core/error.hpp"

namespace dlock {

// Its first line. Errc::config, "'/etc/pw': mode 0644 ..."; never the content.
Result<std::string> read_secret(const std::string& path);

// The same of credentials, SCHEME:CREDENTIAL.
Result<std::string> read_credential(const std::string& path);

}  // namespace dlock
