// SPDX-License-Identifier: Apache-2.0
#include "mysql/factory.hpp"
#include <fmt/format.h>
#include <mysql.h>
#include <algorithm>
#include "mysql/client/options.hpp"
#include "mysql/foreign/for_update_backend.hpp"
#include "mysql/foreign/get_lock_backend.hpp"
#include "mysql/foreign/insert_backend.hpp"
#include "mysql/foreign/version_backend.hpp"
#include "mysql/lease/lease_backend.hpp"

namespace dlock::mysql {
namespace {

constexpr std::size_t removed_at_once = 200;

Result<void> remove(Client& client, const Rows& rows, std::span<const std::string> names) {
  std::string list;
  for (const std::string& name : names)
    list += (list.empty() ? "" : ",") + (rows.text ? text_hex(name) : hex(name));
  const Deadline until = client.usual_deadline();
  TRY_VOID(client.run<Answer>(until, "", [&](Connection& c) -> Result<Answer> {
    auto r = c.query("remove",
                     fmt::format("DELETE FROM `{}` WHERE `{}` IN ({}){}", rows.table, rows.column,
                                 list, rows.also),
                     until);
    if (!r && c.remedy() == Remedy::create) return Answer{};  // no table, so no row
    return r;
  }));
  return {};
}

}  // namespace

std::unique_ptr<NamedBackend> open_named(const Traits& traits, const Options& options) {
  if (traits.recipe == "get-lock") return std::make_unique<GetLockBackend>(traits, options);
  if (traits.recipe == "for-update") return std::make_unique<ForUpdateBackend>(traits, options);
  if (traits.recipe == "insert") return std::make_unique<InsertBackend>(traits, options);
  if (traits.recipe == "version") return std::make_unique<VersionBackend>(traits, options);
  return nullptr;
}

Result<void> check(const Url& url, const Traits& traits, const Settings& settings) {
  TRY_VOID(parse_options(url, traits, settings));
  return {};
}

Result<std::unique_ptr<Backend>> open(const Url& url, const Traits& traits,
                                      const Settings& settings) {
  TRY(options, parse_options(url, traits, settings));
  if (auto named = open_named(traits, options)) return named;
  return std::make_unique<LeaseBackend>(traits, std::move(options));
}

// The tables stay: other clients may be about to use them.
Result<void> purge(const Url& url, const Traits& traits, const Settings& settings,
                   std::span<const Key> keys) {
  TRY(options, parse_options(url, traits, settings));
  const auto named = open_named(traits, options);
  const std::vector<Rows> all =
      named ? named->rows() : std::vector<Rows>{{"dlock_wait", "name"}, {"dlock_lock", "name"}};

  std::vector<std::string> names;
  for (const Key& key : keys)
    names.push_back(options.prefix + (traits.native ? store_name(key) : key.text()));
  Client client(std::move(options));
  for (std::span<const std::string> left = names; !left.empty();
       left = left.subspan(std::min(left.size(), removed_at_once)))
    for (const Rows& rows : all)
      TRY_VOID(remove(client, rows, left.first(std::min(left.size(), removed_at_once))));
  return {};
}

std::vector<std::string> libraries() {
#ifdef MARIADB_PACKAGE_VERSION
  return {std::string("MariaDB Connector/C ") + ::mysql_get_client_info()};
#else
  return {std::string("libmysqlclient ") + ::mysql_get_client_info()};
#endif
}

}  // namespace dlock::mysql
