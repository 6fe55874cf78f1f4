// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect/columns.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <ctime>
#include "cli/grant_output.hpp"
#include "cli/inspect/key_state.hpp"
#include "cli/options/values.hpp"
#include "core/duration.hpp"
#include "core/text.hpp"
#include "run/lines.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

// A column of the first holder: without one "-" for people and empty for programs.
template <std::string (*Of)(const HolderView&)>
std::string of_holder(const KeyView& k) {
  return k.holders.empty() ? "-" : or_dash(Of(k.holders.front()));
}
template <std::string (*Of)(const HolderView&)>
std::string csv_of_holder(const KeyView& k) {
  return k.holders.empty() ? "" : Of(k.holders.front());
}

std::string key(const KeyView& k) { return printable(k.key); }
std::string state(const KeyView& k) { return std::string(state_name(state_of(k))); }
std::string holders(const KeyView& k) { return fmt::to_string(holding(k)); }

std::string holder(const KeyView& k) {
  if (k.holders.empty()) return "-";
  return k.holders.front().who.text() + (holding(k) > 1 ? fmt::format(" +{}", holding(k) - 1) : "");
}
std::string csv_holder(const KeyView& k) {
  return k.holders.empty() ? "" : k.holders.front().who.text();
}

std::string mode(const HolderView& h) { return std::string(mode_name(h.mode)); }
std::string slot(const HolderView& h) {
  return h.mode == Mode::permit ? fmt::to_string(h.slot) : "";
}
std::string id(const HolderView& h) { return printable(h.id); }
std::string host(const HolderView& h) { return printable(h.who.host); }
std::string pid(const HolderView& h) { return h.who.pid > 0 ? fmt::to_string(h.who.pid) : ""; }
std::string user(const HolderView& h) { return printable(h.who.user_name()); }
std::string reason(const HolderView& h) { return printable(h.who.reason); }

// The time of day if that is unambiguous, else the day; in local time.
std::string asked(const HolderView& h) {
  const auto a = age(h.who);
  if (h.who.since <= 0) return "?";
  const std::time_t seconds = h.who.since / 1'000'000;
  std::tm t{};
  if (!::localtime_r(&seconds, &t)) return "?";
  if (a && *a < 20h) return fmt::format("{:02}:{:02}:{:02}", t.tm_hour, t.tm_min, t.tm_sec);
  return fmt::format("{:04}-{:02}-{:02}", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday);
}
std::string csv_asked(const HolderView& h) { return h.who.since > 0 ? run::utc(h.who.since) : "?"; }

std::string age_text(const HolderView& h) {
  const auto a = age(h.who);
  return a ? format_duration(*a) : "?";
}
std::string csv_age(const HolderView& h) {
  const auto a = age(h.who);
  return a ? fmt::to_string(whole_milliseconds(*a)) : "?";
}

// When it was granted, by the store's clock: only if the store keeps it.
std::string since(const HolderView& h) { return h.held ? format_duration(*h.held) : "?"; }
std::string csv_since(const HolderView& h) {
  return h.held ? fmt::to_string(whole_milliseconds(*h.held)) : "?";
}

std::string command(const HolderView& h) { return printable(h.who.command); }

std::string lease(const HolderView& h) {
  return h.remaining ? format_duration(std::max(*h.remaining, 0us)) : "";
}
std::string csv_lease(const HolderView& h) {
  return h.remaining ? fmt::to_string(whole_milliseconds(*h.remaining)) : "";
}

// The token of the holder; of a free key the newest granted.
FencingToken token_of(const KeyView& k) {
  return k.holders.empty() ? k.fence : k.holders.front().token;
}
std::string token(const KeyView& k) { return token_of(k) ? fmt::to_string(token_of(k)) : "-"; }
std::string csv_token(const KeyView& k) { return fmt::to_string(token_of(k)); }

std::string wait(const KeyView& k) {
  return k.waiters_known ? fmt::to_string(k.waiters.size()) : "?";
}

std::string notes(const KeyView& k) {
  std::string text;
  for (const std::string& n : k.notes) text += (text.empty() ? "" : "; ") + printable(n);
  return text;
}
std::string notes_text(const KeyView& k) { return or_dash(notes(k)); }

constexpr bool usual = true, unusual = false;

constexpr Column table[] = {
    {"KEY", usual, key, key},
    {"STATE", usual, state, state},
    {"MODE", usual, of_holder<mode>, csv_of_holder<mode>},
    {"HOLDERS", unusual, holders, holders},
    {"HOLDER", usual, holder, csv_holder},
    {"HOST", unusual, of_holder<host>, csv_of_holder<host>},
    {"PID", unusual, of_holder<pid>, csv_of_holder<pid>},
    {"USER", unusual, of_holder<user>, csv_of_holder<user>},
    {"ID", unusual, of_holder<id>, csv_of_holder<id>},
    {"SLOT", unusual, of_holder<slot>, csv_of_holder<slot>},
    {"ASKED", usual, of_holder<asked>, csv_of_holder<csv_asked>},
    {"AGE", usual, of_holder<age_text>, csv_of_holder<csv_age>, "AGE_MS"},
    {"SINCE", unusual, of_holder<since>, csv_of_holder<csv_since>, "SINCE_MS"},
    {"LEASE", usual, of_holder<lease>, csv_of_holder<csv_lease>, "LEASE_MS"},
    {"TOKEN", usual, token, csv_token},
    {"WAIT", usual, wait, wait},
    {"REASON", usual, of_holder<reason>, csv_of_holder<reason>},
    {"COMMAND", unusual, of_holder<command>, csv_of_holder<command>},
    {"NOTES", unusual, notes_text, notes},
};

const Column* find(std::string_view name) {
  const auto same = [](char a, char b) { return a == (b >= 'a' && b <= 'z' ? b - 'a' + 'A' : b); };
  for (const Column& c : table)
    if (std::equal(c.name.begin(), c.name.end(), name.begin(), name.end(), same)) return &c;
  return nullptr;
}

std::string all_names() {
  std::string names;
  for (const Column& c : table) names += fmt::format("{}{}", names.empty() ? "" : ", ", c.name);
  return names;
}

}  // namespace

Result<std::vector<const Column*>> choose_columns(const Options& o) {
  std::vector<const Column*> chosen;
  std::string_view names = o.columns;
  const bool add = names.starts_with('+');
  if (add) names.remove_prefix(1);
  if (add || names.empty())
    for (const Column& c : table)
      if (c.usual) chosen.push_back(&c);
  while (!o.columns.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    const Column* c = find(name);
    if (!c)
      return fail(blame(o, "columns"),
                  fmt::format("{}: {} is not a column: {}", called(o, "columns"), quoted(name),
                              all_names()));
    if (std::find(chosen.begin(), chosen.end(), c) == chosen.end()) chosen.push_back(c);
    if (name.size() == names.size()) break;
    names.remove_prefix(name.size() + 1);
  }
  return chosen;
}

}  // namespace dlock::cli
