// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect/output_text.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <csignal>
#include <cstring>
#include "cli/grant_output.hpp"
#include "cli/inspect/key_state.hpp"
#include "cli/sh_word.hpp"
#include "core/duration.hpp"
#include "core/text.hpp"
#include "run/lines.hpp"
#include "run/once_per.hpp"
#include "run/process.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

using Row = std::vector<std::string>;

// Code points as a measure of width: wide characters make a ragged table, never a wrong one.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      text += row[i] + std::string(widths[i] - width(row[i]) + 2, ' ');
    text += row.back() + '\n';
  }
  return text;
}

Row headings(const std::vector<const Column*>& columns, bool csv = false) {
  Row row;
  for (const Column* c : columns)
    row.emplace_back(csv && !c->csv_name.empty() ? c->csv_name : c->name);
  return row;
}

// RFC 4180.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string csv_line(const Row& row) {
  std::string text;
  for (const std::string& field : row)
    text.append(&field == row.data() ? "" : ",").append(csv_field(field));
  return text + '\n';
}

void line(std::string& text, std::string_view about, std::string_view what) {
  text += fmt::format("{:<9}{}\n", about, what);
}

std::string lease(const HolderView& h) {
  if (h.ended()) {
    const std::string_view what = h.attached ? "has ended with its process" : "has ended";
    if (*h.remaining == 0us) return fmt::format("{}; the key can be taken", what);
    return fmt::format("{} {} ago; the key can be taken", what, format_duration(-*h.remaining));
  }
  if (h.vanished)
    return h.remaining
               ? fmt::format("vanished; lock-delay for {} more", format_duration(*h.remaining))
               : "vanished";
  if (!h.remaining) return h.attached ? "lasts as long as its process" : "no end is known";
  return fmt::format("ends in {} without a renewal", format_duration(*h.remaining));
}

std::string asked(const Identity& i) {
  if (i.since <= 0) return "?";
  const auto a = age(i);
  return fmt::format("{}, {} ago", run::utc(i.since), a ? format_duration(*a) : "?");
}

// A lease whose process was here and is gone.
bool outlived(const HolderView& h) {
  return !h.attached && !h.vanished && h.remaining && run::look_for(h.who) == run::Sighted::ended;
}

std::string moment(std::int64_t wall, std::int64_t now) {
  return wall <= now ? "now" : "in " + format_duration(Duration{wall - now});
}

void holder(std::string& text, const KeyView& k, const HolderView& h) {
  const std::string slot = h.mode == Mode::permit ? fmt::format(", slot {}", h.slot) : "";
  // none: another program's
  const std::string token = h.token ? fmt::format("token {}", h.token) : "no token";
  const std::string id = h.id.empty() ? "" : fmt::format(", id {}", printable(h.id));
  line(text, "holder", fmt::format("{}, {}{}{}", h.who.text(), token, slot, id));
  line(text, "", fmt::format("asked {}", asked(h.who)));
  if (h.held) line(text, "", fmt::format("held for {}", format_duration(*h.held)));
  const bool rest = remains(k, h) && h.remaining && !h.ended();
  if (h.who.kept_by == Identity::KeptBy::keeper)
    line(text, "", fmt::format("kept by process {} (acquire --keep)", h.who.pid));
  if (rest)
    line(
        text, "",
        fmt::format("kept until {}, in {}, job ended (--min-hold)",
                    run::utc(wall_micros() + h.remaining->count()), format_duration(*h.remaining)));
  else line(text, "", fmt::format("lease {}", lease(h)));
  if (outlived(h) && !rest) line(text, "", "the process that took it has ended, as with acquire");
  if (!h.who.reason.empty()) line(text, "", fmt::format("reason {}", printable(h.who.reason)));
  if (!h.who.command.empty()) line(text, "", fmt::format("command {}", printable(h.who.command)));
  if (h.revoked) line(text, "", "was asked to stop (release --revoke)");
}

std::string how(const RunEnd& end) {
  if (!end.by_signal) return fmt::format("exit status {}", end.value);
  const char* name = ::sigabbrev_np(end.value);
  return fmt::format("ended by signal {}{}", end.value, name ? fmt::format(" ({})", name) : "");
}

// The start noted by --once-per, and how long ago that is where the clock of the backend is known.
std::string noted_at(std::int64_t at, const std::optional<Starts>& starts) {
  if (!starts || !starts->last) return run::utc(at);
  const Duration ahead = run::OncePer::ahead(*starts);
  if (ahead > 0us)
    return fmt::format("{}, {} in the future (the clock of the backend was ahead)", run::utc(at),
                       format_duration(ahead));
  return fmt::format("{}, {} ago", run::utc(at), format_duration(Duration{starts->now - at}));
}

// The record of the last run, and the start noted by --once-per, which may be of the same run. One
// that is newer has no end yet: it runs, or its dlock was killed.
void runs(std::string& text, const KeyView& k, const std::optional<Starts>& starts) {
  const auto& last = k.last_run;
  const auto noted = starts && starts->last ? starts->last->at : k.noted_start;
  const bool same = last && noted && *noted >= last->started && *noted <= last->ended;
  const bool newer = noted && (!last || *noted > last->ended);
  const std::string start = noted ? noted_at(*noted, starts) : "";
  if (newer && state_of(k) == KeyState::held) line(text, "started", start + ", with --once-per");
  else if (newer)
    line(text, "last run", fmt::format("started {}, with --once-per, end unknown", start));
  if (last) {
    line(text, newer ? "earlier" : "last run",
         fmt::format("{}, token {}, {}", last->who.text(), last->token, how(last->end)));
    line(text, "",
         fmt::format(
             "started {}, lasted {}", same ? start + ", with --once-per" : run::utc(last->started),
             format_duration(Duration{std::max<std::int64_t>(0, last->ended - last->started)})));
  }
  if (noted && !same && !newer) line(text, "once-per", "last started " + start);
}

// When each calendar period lets the next one start.
void next_starts(std::string& text, const Starts& s) {
  std::string next;
  using C = run::OncePer::Calendar;
  for (const C c : {C::hour, C::day, C::week, C::month}) {
    const run::OncePer period{c, {}};
    next += fmt::format("{} {}, ", period.text(), moment(period.next_after(s.last->at), s.now));
  }
  line(text, "next", fmt::format("by --once-per {}or a duration after the start", next));
}

// How an operator ends the first holder, the gentlest way first.
void ways_to_end(std::string& text, const KeyView& k, const OpenStore& opened) {
  const HolderView& h = k.holders.front();
  const std::string release = "dlock release" + opened.options + " --key " + sh_word(k.key);
  const auto hears = [&](const HolderView& one) { return !one.vanished && listens(k, one); };
  if (opened.store.traits->revokes && !h.revoked &&
      std::any_of(k.holders.begin(), k.holders.end(), hears))
    line(text, "revoke",
         release + " --revoke --wait 1m" +
             (holding(k) > 1 ? fmt::format(" # asks all {} holders", holding(k)) : ""));
  if (!h.vanished && run::look_for(h.who) == run::Sighted::lives)
    line(text, "kill", fmt::format("kill {}", h.who.pid));
  line(text, "force",
       fmt::format("{} --force {}", release,
                   h.token ? fmt::format("--token {}", h.token) : "--yes"));
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

}  // namespace

std::string table_of(const std::vector<KeyView>& keys, const std::vector<const Column*>& columns,
                     bool heading) {
  std::vector<Row> rows;
  if (heading) rows.push_back(headings(columns));
  for (const KeyView& k : keys) {
    rows.emplace_back();
    for (const Column* c : columns) rows.back().push_back(c->text(k));
  }
  return aligned(rows) + (heading ? summary(keys) : "");
}

std::string csv_of(const std::vector<KeyView>& keys, const std::vector<const Column*>& columns,
                   bool heading) {
  std::string text = heading ? csv_line(headings(columns, true)) : "";
  for (const KeyView& k : keys) {
    Row row;
    for (const Column* c : columns) row.push_back(c->csv(k));
    text += csv_line(row);
  }
  return text;
}

std::string table_of_unknown(const Key& key, const std::vector<const Column*>& columns,
                             const Options& o) {
  Row row;
  for (const Column* c : columns) row.emplace_back(c->name == "KEY" ? printable(key.text()) : "?");
  if (o.csv) return (o.no_heading ? "" : csv_line(headings(columns, true))) + csv_line(row);
  std::vector<Row> rows;
  if (!o.no_heading) rows.push_back(headings(columns));
  rows.push_back(row);
  return aligned(rows);
}

std::string text_of_key(const KeyView& k, const OpenStore& opened, const Result<Starts>& found) {
  std::string text;
  line(text, "key", printable(k.key));
  const std::string mode =
      k.holders.empty() ? "" : fmt::format(", {}", mode_name(k.holders.front().mode));
  const std::string_view past = !never_taken(k) ? ""
                                // those keep the newest token, too
                                : opened.store.traits->keeps_last_run
                                    ? ", never taken (the backend has no record)"
                                    : " (this recipe keeps no record of a free key)";
  const std::string of = permits(k);
  const KeyState state = state_of(k);
  if (state == KeyState::unknown) line(text, "state", fmt::format("?, {}", printable(k.unread)));
  else
    line(text, "state",
         fmt::format("{}{}{}{}", state_name(state), mode, of.empty() ? "" : ", " + of, past));
  line(text, "token", k.fence ? fmt::format("{} is the newest granted", k.fence) : "-");
  for (const HolderView& h : k.holders) holder(text, k, h);
  if (!k.waiters_known) line(text, "waiting", "?");
  for (std::size_t i = 0; i < k.waiters.size(); ++i) {
    const WaiterView& w = k.waiters[i];
    const std::string reason =
        w.who.reason.empty() ? "" : fmt::format(", reason {}", printable(w.who.reason));
    line(text, i ? "" : "waiting",
         fmt::format("{} {}, {}, asked {}{}", i + 1, w.who.text(), mode_name(w.mode), asked(w.who),
                     reason));
  }
  const auto starts = found ? std::optional{*found} : std::nullopt;
  runs(text, k, starts);
  if (!found) line(text, "once-per", fmt::format("? ({})", printable(found.error().message)));
  else if (found->last) next_starts(text, *found);
  for (const std::string& n : k.notes) line(text, "note", printable(n));
  if (state != KeyState::unknown && !k.unread.empty()) line(text, "note", printable(k.unread));
  line(text, "where",
       fmt::format("{}, recipe {}", printable(opened.backend->where()),
                   opened.store.traits->recipe));
  if (holding(k) > 0) ways_to_end(text, k, opened);
  return text;
}

std::string text_of_unknown_key(const Key& key) {
  std::string text;
  line(text, "key", printable(key.text()));
  line(text, "state", "?");
  return text;
}

}  // namespace dlock::cli
