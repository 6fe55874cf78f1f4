// SPDX-License-Identifier: Apache-2.0
#include "cli/store.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include "cli/say.hpp"
#include "cli/verbs.hpp"

namespace dlock::cli {

using namespace std::chrono_literals;

Result<Store> choose_store(const Options& o) {
  const auto wrong = [&](std::string_view option, const Error& e) {
    return fail(e.code == Errc::usage ? blame(o, option) : e.code, fmt::format("{}: {}", called(o, option), e.message));
  };
  auto url = Url::parse(o.backend);
  if (!url) return wrong("backend", url.error());
  const bool url_decides = !given_by_flag(o, "recipe") && url->item("recipe");
  const std::string_view recipe = url_decides ? std::string_view{} : o.recipe;
  const auto choice = choose(*url, recipe);
  // With a recipe from elsewhere, try the URL alone: who is to blame decides the name in the message and the exit status.
  if (!choice) return wrong(!recipe.empty() && choose(*url, {}) ? "recipe" : "backend", choice.error());
  if (!url->password.empty() && !o.quiet)
    say(fmt::format("{}: a password in a URL is easily seen by others ({})", called(o, "backend"), url->redacted()));
  if (choice->traits->legacy && !o.quiet)
    say(fmt::format("{}, recipe {}: {}", choice->traits->family, choice->traits->recipe, choice->traits->weakness));
  if (choice->factory->warning && !o.quiet)
    if (const std::string text = choice->factory->warning(*url); !text.empty())
      say(fmt::format("{}: {}", called(o, "backend"), text));
  return Store{std::move(*url), choice->factory, choice->traits, called(o, "backend"), blame(o, "backend")};
}

Result<std::unique_ptr<Backend>> Store::open(const Settings& s) const {
  Settings settings = s;
  const char* password = std::getenv("DLOCK_PASSWORD");  // NOLINT(concurrency-mt-unsafe): nobody changes the environment
  if (password && url.password.empty()) settings.password = password;
  auto backend = factory->open(url, *traits, settings);
  if (backend || backend.error().code != Errc::usage) return backend;
  return fail(blame, fmt::format("{}: {}", called, backend.error().message));
}

Result<OpenStore> open_store(const Options& o) {
  auto store = choose_store(o);
  if (!store) return fail(store.error());
  Settings settings;
  settings.op_timeout = o.op_timeout.value_or(std::min<Duration>(5s, o.ttl / 6));
  settings.connect_timeout = o.connect_timeout;
  auto backend = store->open(settings);
  if (!backend) return fail(backend.error());
  if (o.verbosity > 0)
    say(fmt::format("{}: asking {}, recipe {}", info(o.verb).name, (*backend)->where(), store->traits->recipe));
  return OpenStore{std::move(*store), std::move(*backend)};
}

Result<Key> parse_key(const Options& o) { return Key::parse(o.key.value_or("")); }

}  // namespace dlock::cli
