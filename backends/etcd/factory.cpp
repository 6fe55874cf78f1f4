// SPDX-License-Identifier: Apache-2.0
#include "etcd/factory.hpp"
#include "etcd/client/http.hpp"
#include "etcd/queue/queue_backend.hpp"

namespace dlock::etcd {

Access access(const Url& url) {
  Access a{.port = usual_port, .no_auth = "etcd has no use for it: name a user in the URL"};
  const bool tls = url.scheme == "etcds" || asks_for_tls(url);
  if (url.user.empty()) a.no_password = "it has no user; name one in the URL";
  if (!tls) a.no_tls = "it has no TLS: ?tls=yes";
  if (!tls && !is_on_loopback(url)) a.in_clear = "the password is sent unencrypted: ?tls=yes";
  return a;
}

Result<Opener> prepare(const Url& url, const Traits& traits, const Settings& settings) {
  TRY(options, parse_options(url, traits, settings));
  if (options.tls) TRY_VOID(TlsContext::create(*options.tls));
  return opener(std::move(options), [&traits](Options o) {
    return Result<std::unique_ptr<Backend>>{std::make_unique<QueueBackend>(traits, std::move(o))};
  });
}

std::vector<std::string> libraries() { return {http_library()}; }

}  // namespace dlock::etcd
