// SPDX-License-Identifier: Apache-2.0
#include "redlock/factory.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <utility>
#include "redlock/redlock_backend.hpp"

namespace dlock::redlock {

// A majority of masters decides. A master that is named twice would vote twice. An even number of
// masters is no better than one master less.
Result<Options> parse_options(const Url& url, const Traits& traits, const Settings& settings) {
  TRY(parsed, redis::parse_options(url, traits, settings, Options::Topology::independent));
  Options made{std::move(parsed)};
  UrlItems given{items, url, traits, settings};
  const auto& masters = made.servers;
  for (auto m = masters.begin(); m != masters.end(); ++m)
    if (std::find(masters.begin(), m, *m) != m) given.wrong("host", m->text(), "each master once");
  made.list_change = given.yes("list_change");
  if (masters.size() % 2 == 0 && !given.yes("allow_even"))
    given.wrong("host", fmt::format("{} hosts", masters.size()),
                "an odd number of masters: one more of an even number bears no more failures "
                "(allow_even=yes overrules)");
  TRY_VOID(given.verdict());
  return made;
}

Result<Opener> prepare(const Url& url, const Traits& traits, const Settings& settings) {
  TRY(options, parse_options(url, traits, settings));
  return opener(std::move(options), [&traits](Options o) -> Result<std::unique_ptr<Backend>> {
    auto made = std::make_unique<RedlockBackend>(traits, std::move(o));
    TRY_VOID(made->credentials().load());
    return made;
  });
}

}  // namespace dlock::redlock
