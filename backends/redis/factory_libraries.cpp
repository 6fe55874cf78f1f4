// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <openssl/crypto.h>
#include "redis/factory.hpp"

namespace dlock::redis {

std::vector<std::string> libraries() {
  std::string openssl = ::OpenSSL_version(OPENSSL_VERSION);  // "OpenSSL 3.0.17 1 Jul 2025"
  openssl = openssl.substr(0, openssl.find(' ', openssl.find(' ') + 1));
  return {fmt::format("hiredis {}.{}.{}", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH),
          std::move(openssl)};
}

}  // namespace dlock::redis
