// SPDX-License-Identifier: Apache-2.0
#include "etcd/options.hpp"
#include "etcd/factory.hpp"

namespace dlock::etcd {

Result<Options> parse_options(const Url& url, const Traits& traits, const Settings& settings) {
  UrlItems read(items, url, traits, settings);
  Options o;
  static_cast<StoreOptions&>(o) = read.store_options();
  o.native = traits.native;
  if (url.hosts.empty()) read.wrong("host", "", "at least one, as in etcd://H1,H2,H3[/prefix]");
  for (const Url::Host& host : url.hosts)
    o.endpoints.push_back({host.name, host.port.value_or(usual_port)});
  o.tls = read.tls(url.scheme == "etcds", false, "?tls=yes");
  o.user = url.user;
  o.password = read.password();
  o.password_file = settings.password_file;
  if (!o.user.empty() && o.password.empty())
    read.wrong("user", o.user, "a user with a password (DLOCK_PASSWORD, --password-file)");
  std::string path = url.path;
  while (path.ends_with('/')) path.pop_back();
  o.root = (path.empty() ? "" : path + '/') + read.prefix("dlock/");
  TRY_VOID(read.verdict());
  return o;
}

}  // namespace dlock::etcd
