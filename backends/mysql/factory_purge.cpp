// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include "mysql/factory.hpp"
#include "mysql/foreign/named_backend.hpp"

namespace dlock::mysql {
namespace {

constexpr std::size_t removed_at_once = 200;

Result<void> remove(Client& client, const Rows& rows, std::span<const std::string> names) {
  std::string list;
  for (const std::string& name : names)
    list += (list.empty() ? "" : ",") + (rows.text ? text_hex(name) : hex(name));
  const Deadline until = client.usual_deadline();
  const auto gone = client.run<Answer>(until, "", [&](Connection& c) -> Result<Answer> {
    auto r = c.query("remove",
                     fmt::format("DELETE FROM `{}` WHERE `{}` IN ({}){}", rows.table, rows.column,
                                 list, rows.also),
                     until);
    if (!r && c.remedy() == Remedy::create) return Answer{};  // no table, so no row
    return r;
  });
  if (!gone) return fail(gone.error());
  return {};
}

}  // namespace

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
      if (auto gone = remove(client, rows, left.first(std::min(left.size(), removed_at_once)));
          !gone)
        return gone;
  return {};
}

}  // namespace dlock::mysql
