// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include "redlock/factory.hpp"
#include "redlock/redlock_backend.hpp"

namespace dlock::redlock {
namespace {

constexpr std::size_t removed_at_once = 256;

}  // namespace

// Every master, not a majority: one left out would keep its numbers.
Result<void> purge(const Url& url, const Traits& traits, const Settings& settings,
                   std::span<const Key> keys) {
  TRY(options, parse_options(url, traits, settings));
  for (const redis::Endpoint& master : options.servers) {
    redis::Options one = options;
    one.topology = redis::Options::Topology::single;
    one.servers = {master};
    TRY(client, redis::Client::create(std::move(one)));
    for (std::span<const Key> left = keys; !left.empty();
         left = left.subspan(std::min(left.size(), removed_at_once))) {
      redis::Command remove{"remove"};
      remove.words = {"DEL"};
      for (const Key& key : left.first(std::min(left.size(), removed_at_once)))
        for (std::string& name : Names{options.prefix + key.text()}.all())
          remove.words.push_back(std::move(name));
      remove.keys = {remove.words[1]};
      TRY_VOID(client->call(remove));
    }
  }
  return {};
}

}  // namespace dlock::redlock
