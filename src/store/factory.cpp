// SPDX-License-Identifier: Apache-2.0
#include "store/factory.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/text.hpp"

namespace dlock {
namespace {

constexpr std::string_view common_items[] = {"recipe", "prefix", "short_ttl"};

template <class Range, class Value>
bool contains(const Range& range, const Value& value) {
  return std::ranges::find(range, value) != std::end(range);
}

tl::unexpected<Error> bad(const Url& url, std::string_view what) {
  return fail(Errc::usage, "backend URL {}: {}", quoted(url.redacted(), 300), what);
}

// Returns a hint for schemes of other programs, such as mysql+pymysql of an ORM; empty: the scheme
// is unknown.
std::string_view known_as(std::string_view scheme) {
  constexpr std::pair<std::string_view, std::string_view> others[] = {
      {"mysql2", "mysql"},
      {"pgsql", "postgresql"},
      {"psql", "postgresql"},
      {"postgis", "postgresql"},
      {"redis-sentinel", "redis+sentinel"},
      {"valkey", "redis"},
      {"valkeys", "rediss"},
      {"unix", "redis+unix"}};
  for (const auto& [other, own] : others)
    if (scheme == other) return own;
  const std::string_view family = scheme.substr(0, scheme.find('+'));
  return family == "mysql" || family == "mariadb" || family == "postgresql" || family == "postgres"
             ? family
             : "";
}

tl::unexpected<Error> unknown_scheme(const Url& url) {
  for (const AbsentBackend& absent : absent_backends())
    if (contains(absent.schemes, url.scheme))
      return bad(url, fmt::format("this dlock was built without {}; build it with -D{}=ON",
                                  absent.family, absent.option));
  std::string exist;
  for (const BackendFactory& factory : backends())
    for (const std::string_view scheme : factory.schemes) add_part(exist, scheme);
  if (const auto own = known_as(url.scheme); !own.empty())
    return bad(url, fmt::format("there is no scheme {}; write {}:", quoted(url.scheme), own));
  return bad(url, fmt::format("there is no scheme {}; allowed are {}", quoted(url.scheme), exist));
}

std::string allowed_items(const BackendFactory& factory) {
  std::string list;
  for (const std::string_view item : common_items) add_part(list, item);
  for (const UrlItem& row : factory.items)
    for (std::string_view names = row.names; !names.empty();) {
      const std::string_view name = next_part(names, ' ');
      add_part(list, name.ends_with('.') ? std::string{name} + "NAME" : name);
    }
  return list;
}

const BackendFactory* factory_of(const Url& url) {
  for (const BackendFactory& factory : backends())
    if (contains(factory.schemes, url.scheme)) return &factory;
  return nullptr;
}

}  // namespace

bool UrlItem::covers(std::string_view name) const noexcept {
  for (std::string_view rest = names; !rest.empty();) {
    const std::string_view own = next_part(rest, ' ');
    if (own.ends_with('.') ? name.starts_with(own) && name != own : name == own) return true;
  }
  return false;
}

Result<Choice> choose(const Url& url, std::string_view recipe) {
  const BackendFactory* const factory = factory_of(url);
  if (!factory) return unknown_scheme(url);
  for (const Url::Host& host : url.hosts)
    if (!is_host(host.name))
      return bad(url, fmt::format("{} is not a host; a directory is one only in postgresql:",
                                  quoted(host.name)));

  for (const auto& [name, value] : url.items) {
    const auto covers = [&have = name](const UrlItem& item) { return item.covers(have); };
    if (contains(common_items, name) || std::ranges::any_of(factory->items, covers)) continue;
    constexpr std::string_view of_programs[] = {
        "schema", "pool", "pool_size", "pool_timeout", "connection_limit", "pgbouncer"};
    if (std::ranges::find(of_programs, name) != std::end(of_programs))
      return bad(url, fmt::format("item {} is for another program's own use of the database; leave "
                                  "it out",
                                  quoted(name)));
    return bad(url, fmt::format("{} has no item {}; allowed are {}", factory->family, quoted(name),
                                allowed_items(*factory)));
  }

  const auto asked = recipe.empty() ? url.item("recipe") : std::optional{recipe};
  if (!asked) return Choice{factory, &factory->recipes.front()};
  std::string exist;
  for (const Traits& traits : factory->recipes) {
    if (traits.recipe == *asked) return Choice{factory, &traits};
    add_part(exist, traits.recipe);
  }
  return bad(url, fmt::format("{} has no recipe {}; allowed are {}", factory->family,
                              quoted(*asked), exist));
}

Result<Url> parse_backend(std::string_view text) {
  TRY(url, Url::parse(text));
  if (const auto* factory = factory_of(url); factory && factory->normalize_url)
    factory->normalize_url(url);
  return std::move(url);
}

std::vector<std::string> libraries() {
  std::vector<std::string> all;
  for (const BackendFactory& factory : backends())
    if (factory.libraries)
      for (std::string& library : factory.libraries()) all.push_back(std::move(library));
  return all;
}

}  // namespace dlock
