// SPDX-License-Identifier: Apache-2.0
#include "redis/factory.hpp"
#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <openssl/crypto.h>
#include "redis/fair/fair_backend.hpp"
#include "redis/named/named_backend.hpp"

namespace dlock::redis {

Result<Opener> prepare(const Url& url, const Traits& traits, const Settings& settings) {
  TRY(options, parse_options(url, traits, settings));
  return opener(std::move(options), [&traits](Options o) -> Result<std::unique_ptr<Backend>> {
    TRY(client, Client::create(std::move(o)));
    if (!traits.native) return std::make_unique<NamedBackend>(traits, std::move(client));
    return std::make_unique<FairBackend>(traits, std::move(client));
  });
}

Access access(const Url& url) {
  Access a{.port = usual_port(url.scheme), .no_auth = "it has passwords (--password-file)"};
  if (url.scheme == "redis+sentinel") a.no_sentinels = "";
  if (url.scheme == "redis+unix") a.no_tls = "a unix socket has no TLS";
  else if (url.scheme != "rediss" && !asks_for_tls(url))
    a.no_tls = url.scheme == "redis" ? "it is without TLS; use rediss:// or tls=yes"
                                     : "it is without TLS; add tls=yes";
  return a;
}

std::vector<std::string> libraries() {
  std::string openssl = ::OpenSSL_version(OPENSSL_VERSION);  // "OpenSSL 3.0.17 1 Jul 2025"
  openssl = openssl.substr(0, openssl.find(' ', openssl.find(' ') + 1));
  return {fmt::format("hiredis {}.{}.{}", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH),
          std::move(openssl)};
}

}  // namespace dlock::redis
