// SPDX-License-Identifier: Apache-2.0
#include "cli/store.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include "cli/options/proposed_url.hpp"
#include "cli/options/verbs.hpp"
#include "cli/say.hpp"
#include "cli/secrets.hpp"
#include "cli/sh_word.hpp"
#include "core/duration.hpp"
#include "core/text.hpp"

namespace dlock::cli {

using namespace std::chrono_literals;

Result<Store> choose_store(const Options& o) {
  const auto wrong = [&](std::string_view option, const Error& e) {
    return fail(e.code == Errc::usage ? blame(o, option) : e.code,
                fmt::format("{}: {}", called(o, option), e.message));
  };
  if (const std::string meant = proposed_url(o.backend); !meant.empty())
    return wrong("backend", {Errc::usage, fmt::format("{} has no scheme; did you mean {}?",
                                                      quoted(o.backend), meant)});
  auto url = Url::parse(o.backend);
  if (!url) return wrong("backend", url.error());
  const SecretFiles files = take_secret_files(*url);
  const bool url_decides = !given_by_flag(o, "recipe") && url->item("recipe");
  const std::string_view recipe = url_decides ? std::string_view{} : o.recipe;
  const auto choice = choose(*url, recipe);
  // With a recipe from elsewhere, try the URL alone: the part with the error decides the name in
  // the message and the exit status.
  if (!choice)
    return wrong(!recipe.empty() && choose(*url, {}) ? "recipe" : "backend", choice.error());
  if (!url->password.empty() && !o.quiet)
    say(fmt::format("{}: a password in a URL is easily seen by others ({})", called(o, "backend"),
                    url->redacted()));
  if (choice->traits->legacy && !o.quiet)
    say(fmt::format("{}, recipe {}: {}", choice->traits->family, choice->traits->recipe,
                    choice->traits->weakness));
  if (choice->factory->makes && given_by_flag(o, "backend") && !o.quiet)
    if (const std::string text = choice->factory->makes(*url, *choice->traits); !text.empty())
      say(fmt::format("--backend: {}", text));
  if (given_by_flag(o, "auth-file") && choice->factory->family != "zookeeper")
    return fail(Errc::usage,
                fmt::format("--auth-file: is for zookeeper; {} has passwords (--password-file)",
                            choice->factory->family));
  if (o.tls_insecure && !o.quiet)
    say("--tls-insecure: the server's certificate is not verified; an attacker may read and change "
        "everything");
  auto secrets = find_secrets(o, *url, files);
  if (!secrets) return fail(secrets.error());
  if (choice->factory->warning && !o.quiet) {
    Url used = *url;  // with the login that was taken out of it, or is from elsewhere
    if (!secrets->auth.empty()) used.items.emplace_back("auth_file", "");
    if (const std::string text = choice->factory->warning(used); !text.empty())
      say(fmt::format("{}: {}", called(o, "backend"), text));
  }
  return Store{std::move(*url),     choice->factory,      choice->traits,
               std::move(*secrets), called(o, "backend"), blame(o, "backend")};
}

Settings Store::with_secrets(Settings s) const {
  static_cast<Secrets&>(s) = secrets;
  return s;
}

Result<std::unique_ptr<Backend>> Store::open(const Settings& s) const {
  auto backend = factory->open(url, *traits, with_secrets(s));
  if (backend || backend.error().code != Errc::usage) return backend;
  return fail(blame, fmt::format("{}: {}", called, backend.error().message));
}

std::string place_of(const Store& s) {
  Url url = s.url;
  url.user.clear();
  url.password.clear();
  std::erase_if(url.items, [](const auto& item) {
    return item.first != "prefix" && item.first != "db" && item.first != "table";
  });
  return url.redacted();
}

Result<OpenStore> open_store(const Options& o) {
  auto store = choose_store(o);
  if (!store) return fail(store.error());
  Settings settings;
  settings.op_timeout = o.op_timeout.value_or(usual_op_timeout(o.ttl));
  settings.connect_timeout = o.connect_timeout;
  auto backend = store->open(settings);
  if (!backend) return fail(backend.error());
  if (o.verbosity > 0)
    say(fmt::format("{}: asking {}, recipe {}", info(o.verb).name, (*backend)->where(),
                    store->traits->recipe));
  return OpenStore{std::move(*store), std::move(*backend), store_options(o)};
}

Result<void> long_enough(const Options& o) {
  if (o.ttl >= shortest_ttl || o.allow_short_ttl) return {};
  return fail(blame(o, "ttl"),
              fmt::format("{}: {} must be at least {} (--allow-short-ttl permits less)",
                          called(o, "ttl"), format_duration(o.ttl), format_duration(shortest_ttl)));
}

Result<std::vector<Key>> parse_keys(const Options& o) {
  std::vector<Key> keys;
  for (const std::string_view text : o.keys) {
    auto key = Key::parse(text);
    if (!key) return fail(key.error());
    keys.push_back(std::move(*key));
  }
  return keys;
}

}  // namespace dlock::cli
