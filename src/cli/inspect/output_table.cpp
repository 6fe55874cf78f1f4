// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include "cli/inspect/key_state.hpp"
#include "cli/inspect/output.hpp"
#include "cli/options/values.hpp"
#include "core/duration.hpp"
#include "core/text.hpp"
#include "util/table.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

using Json = nlohmann::ordered_json;

std::string state(const KeyView& k, bool) { return std::string(state_name(state_of(k))); }
std::string holders(const KeyView& k, bool) { return fmt::to_string(holding(k)); }
std::string waiters(const KeyView& k, bool) {
  return k.waiters_known ? fmt::to_string(k.waiters.size()) : "?";
}

std::string first_holder(const KeyView& k, bool csv) {
  if (k.holders.empty()) return {};
  const std::string first = k.holders.front().who.text();
  return csv || holding(k) <= 1 ? first : fmt::format("{} +{}", first, holding(k) - 1);
}

// Returns the holder's token. For a free key, returns the newest token that was granted.
std::string token(const KeyView& k, bool) {
  const FencingToken token = k.holders.empty() ? k.fence : k.holders.front().token;
  return token ? fmt::to_string(token) : "";
}

std::string notes(const KeyView& k, bool) {
  std::string text;
  for (const std::string& n : k.notes) add_part(text, printable(n), "; ");
  return text;
}

constexpr bool usual = true, unusual = false, perhaps = false;

// If the table is too wide for the terminal, it loses these columns, in this order.
constexpr std::string_view first_to_go[] = {"TOKEN", "MODE", "ASKED"};

constexpr Column all_columns[] = {
    {"KEY", usual, "/key"},
    {"STATE", usual, "", state},
    {"MODE", usual, "/holders/0/mode"},
    {"HOLDERS", unusual, "", holders},
    {"HOLDER", usual, "", first_holder},
    {"HOST", unusual, "/holders/0/host"},
    {"PID", unusual, "/holders/0/pid"},
    {"USER", unusual, "/holders/0/user"},
    {"ID", unusual, "/holders/0/id"},
    {"SLOT", unusual, "/holders/0/slot"},
    {"ASKED", usual, "/holders/0/asked_at", nullptr, perhaps},
    {"AGE", usual, "/holders/0/age_ms", nullptr, perhaps},
    {"LEASE", usual, "/holders/0/lease_remaining_ms"},
    {"TOKEN", usual, "", token},
    {"WAIT", usual, "", waiters},
    {"REASON", usual, "/holders/0/reason"},
    {"COMMAND", unusual, "/holders/0/command"},
    {"NOTES", unusual, "", notes},
};

// Returns the local time of day if it is unambiguous, else the day.
std::string short_time(std::int64_t micros) {
  const std::time_t seconds = micros / 1'000'000;
  std::tm t{};
  if (!::localtime_r(&seconds, &t)) return "?";
  const Duration ago{wall_micros() - micros};
  if (ago >= 0us && ago < 20h)
    return fmt::format("{:02}:{:02}:{:02}", t.tm_hour, t.tm_min, t.tm_sec);
  return fmt::format("{:04}-{:02}-{:02}", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday);
}

std::string cell(const Column& c, const KeyView& k, const Json& j, bool csv) {
  if (c.of) return c.of(k, csv);
  const Json::json_pointer at{std::string(c.at)};
  if (!j.contains(at)) return {};  // no holder
  const Json& value = j[at];
  if (value.is_null()) return c.known ? "" : "?";
  if (!csv && c.at.ends_with("_ms"))
    return format_duration(
        std::chrono::milliseconds{std::max<std::int64_t>(0, value.get<std::int64_t>())});
  if (!csv && c.at.ends_with("_at")) return short_time(k.holders.front().who.since);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

Row cells(const KeyView& k, const Columns& columns, bool csv) {
  const Json j = json_of(k);
  Row row;
  for (const Column* c : columns) {
    std::string text = cell(*c, k, j, csv);
    row.push_back(text.empty() && !csv ? "-" : std::move(text));
  }
  return row;
}

// Returns the headings. In CSV they name the unit (AGE_MS).
Row headings(const Columns& columns, bool csv) {
  Row row;
  for (const Column* c : columns)
    row.push_back(fmt::format("{}{}", c->name, csv && c->at.ends_with("_ms") ? "_MS" : ""));
  return row;
}

std::string summary(const std::vector<KeyView>& keys) {
  std::size_t held = 0, waiting = 0;
  bool known = true;
  for (const KeyView& k : keys) {
    held += state_of(k) == KeyState::held;
    waiting += k.waiters.size();
    known &= k.waiters_known;
  }
  const std::string waiters = known     ? fmt::to_string(waiting)
                              : waiting ? fmt::format("{} or more", waiting)
                                        : "?";
  return fmt::format("{} {}, {} held, {} waiting\n", keys.size(), keys.size() == 1 ? "key" : "keys",
                     held, waiters);
}

// Returns whether --columns names the column.
bool named(const InspectOptions& o, std::string_view column) {
  std::string_view names = o.columns;
  if (names.starts_with('+')) names.remove_prefix(1);
  else if (!names.empty()) return true;  // without a +, no other column is shown
  while (!names.empty())
    if (lower(next_part(names, ',')) == lower(column)) return true;
  return false;
}

std::size_t widest_line(std::string_view text) {
  std::size_t widest = 0;
  while (!text.empty()) widest = std::max(widest, columns_of(next_part(text, '\n')));
  return widest;
}

std::string printed(std::vector<Row> rows, const Columns& columns, const InspectOptions& o) {
  if (!o.no_heading) rows.insert(rows.begin(), headings(columns, o.csv));
  if (!o.csv) return aligned(rows);
  std::string text;
  for (const Row& row : rows) text += csv_line(row);
  return text;
}

const Column* find(std::string_view name) {
  const auto is = [&](const Column& c) { return lower(c.name) == lower(name); };
  const auto found = std::ranges::find_if(all_columns, is);
  return found == std::end(all_columns) ? nullptr : found;
}

}  // namespace

Result<Columns> choose_columns(const InspectOptions& o) {
  Columns chosen;
  std::string_view names = o.columns;
  const bool add = names.starts_with('+');
  if (add) names.remove_prefix(1);
  if (add || names.empty())
    for (const Column& c : all_columns)
      if (c.usual) chosen.push_back(&c);
  while (!o.columns.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    const Column* c = find(name);
    if (!c) {
      std::string all;
      for (const Column& known : all_columns) add_part(all, known.name);
      return fail(error_code_of(o, "columns"), "{}: {} is not a column: {}",
                  display_name(o, "columns"), quoted(name), all);
    }
    if (std::ranges::find(chosen, c) == chosen.end()) chosen.push_back(c);
    if (name.size() == names.size()) break;
    names.remove_prefix(name.size() + 1);
  }
  return chosen;
}

std::string table_of(const std::vector<KeyView>& keys, const Columns& columns,
                     const InspectOptions& o, std::size_t width) {
  Columns shown = columns;
  const auto table = [&] {
    std::vector<Row> rows;
    for (const KeyView& k : keys) rows.push_back(cells(k, shown, o.csv));
    return printed(std::move(rows), shown, o);
  };
  std::string text = table();
  for (const std::string_view name : first_to_go) {
    if (widest_line(text) <= width) break;
    if (named(o, name)) continue;
    std::erase_if(shown, [&](const Column* c) { return c->name == name; });
    text = table();
  }
  return text + (o.csv || o.no_heading ? "" : summary(keys));
}

std::string table_of_unknown(const Key& key, const Columns& columns, const InspectOptions& o) {
  Row row;
  for (const Column* c : columns) row.emplace_back(c->name == "KEY" ? printable(key.text()) : "?");
  return printed({row}, columns, o);
}

}  // namespace dlock::cli
