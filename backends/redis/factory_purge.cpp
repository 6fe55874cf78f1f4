// SPDX-License-Identifier: Apache-2.0
#include "redis/factory.hpp"
#include "redis/fair/fair_keys.hpp"
#include "redis/named/named_key.hpp"
#include "redis/wire/client.hpp"

namespace dlock::redis {

Result<void> purge(const Url& url, const Traits& traits, const Settings& settings,
                   std::span<const Key> keys) {
  TRY(options, parse_options(url, traits, settings));
  TRY(client, Client::create(std::move(options)));
  const std::string prefix = client->options().prefix;
  for (const Key& key : keys) {
    Command remove{"remove"};
    if (traits.native) {
      const FairKeys names{prefix, key};
      remove.keys = {names.slot()};
      remove.words = names.all();
    } else {
      const NamedKey names{prefix, key};
      remove.keys = {names.lock};
      remove.words = {names.lock, names.fence};
    }
    remove.words.insert(remove.words.begin(), "DEL");
    TRY_VOID(client->call(remove));
  }
  return {};
}

}  // namespace dlock::redis
