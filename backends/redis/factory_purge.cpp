// SPDX-License-Identifier: Apache-2.0
#include "redis/factory.hpp"
#include "redis/fair/fair_keys.hpp"
#include "redis/named/named_key.hpp"
#include "redis/wire/client.hpp"

namespace dlock::redis {

Result<void> purge(const Url& url, const Traits& traits, const Settings& settings,
                   std::span<const Key> keys) {
  auto options = parse_options(url, traits, settings);
  if (!options) return fail(std::move(options.error()));
  auto client = Client::create(std::move(*options));
  if (!client) return fail(std::move(client.error()));
  const std::string prefix = (*client)->options().prefix;
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
    if (const auto answer = (*client)->call(remove); !answer) return fail(answer.error());
  }
  return {};
}

}  // namespace dlock::redis
