// SPDX-License-Identifier: Apache-2.0
// The full view of one key, for people.
#include <fmt/format.h>
#include <algorithm>
#include <csignal>
#include "cli/grant.hpp"
#include "cli/inspect/key_state.hpp"
#include "cli/inspect/output.hpp"
#include "core/duration.hpp"
#include "core/text.hpp"
#include "job/process.hpp"
#include "report/lines.hpp"
#include "run/once_per.hpp"
#include "run/time_zone.hpp"
#include "util/shell.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

// Lines with a label. Further lines about the same thing have an empty label.
class Sheet {
 public:
  template <class... Args>
  void line(std::string_view about, fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format("{:<9}{}\n", about, fmt::format(format, std::forward<Args>(args)...));
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

// Returns "<what> <text>"; empty if there is no text.
std::string with(std::string_view what, const std::string& text) {
  return text.empty() ? "" : fmt::format("{}{}", what, printable(text));
}

std::string lease(const HolderView& h) {
  if (h.ended()) {
    const std::string_view what = h.attached ? "has ended with its process" : "has ended";
    if (*h.remaining == 0us) return fmt::format("{}; the key can be taken", what);
    return fmt::format("{} {} ago; the key can be taken", what, format_duration(-*h.remaining));
  }
  const std::string rest = h.remaining ? format_duration(*h.remaining) : "";
  if (h.vanished)
    return "vanished" + with("; lock-delay for ", rest) + (h.remaining ? " more" : "");
  if (h.remaining) return fmt::format("ends in {} without a renewal", rest);
  return h.attached ? "lasts as long as its process" : "no end is known";
}

// Returns a line about a lock whose dlock has ended: how the lock will end, or that this is usual
// after acquire.
std::string after_its_dlock(const HolderView& h) {
  if (h.who.kept_by == Identity::KeptBy::nobody)
    return "the process that took it has ended, as with acquire";
  if (!h.remaining) return "its dlock is no longer running; the lock ends with its job";
  return fmt::format("its dlock is no longer running; the lease expires in {} by itself",
                     format_duration(*h.remaining));
}

std::string request_time(const Identity& i) {
  if (i.since <= 0) return "?";
  const auto a = age(i);
  return fmt::format("{}, {} ago", run::utc(i.since), a ? format_duration(*a) : "?");
}

std::string ending(const RunEnd& end, std::string_view exited, std::string_view signalled) {
  if (!end.by_signal) return fmt::format("{} {}", exited, end.value);
  const char* name = ::sigabbrev_np(end.value);
  return fmt::format("{} {}{}", signalled, end.value, name ? fmt::format(" ({})", name) : "");
}

std::string program_ended(const ProgramEnded& e) {
  const Duration since{std::max<std::int64_t>(0, wall_micros() - e.at)};
  return fmt::format("program ended {} ago {}; kept by {}", format_duration(since),
                     ending(e.end, "with status", "by signal"),
                     e.left.empty() ? "what it left behind" : e.left_text());
}

void add_holder(Sheet& sheet, const KeyView& k, const HolderView& h) {
  // The grant of another program has no token.
  sheet.line("holder", "{}, {}{}{}", h.who.text(),
             h.token ? fmt::format("token {}", h.token) : "no token",
             h.mode == Mode::permit ? fmt::format(", slot {}", h.slot) : "", with(", id ", h.id));
  sheet.line("", "asked {}", request_time(h.who));
  if (const auto held = h.held()) sheet.line("", "held for {}", format_duration(*held));
  if (h.who.kept_by == Identity::KeptBy::keeper)
    sheet.line("", "kept by process {} (acquire --keep)", h.who.pid);
  if (is_min_hold_remainder(k, h) && h.remaining && !h.ended()) {
    sheet.line("", "kept until {}, in {}, job ended (--min-hold)",
               run::utc(wall_micros() + h.remaining->count()), format_duration(*h.remaining));
  } else {
    if (h.who.ended) sheet.line("", "{}", program_ended(*h.who.ended));
    sheet.line("", "lease {}", lease(h));
    const bool in_force = !h.vanished && !h.ended();
    if (in_force && run::find_process(h.who) == run::Presence::ended)
      sheet.line("", "{}", after_its_dlock(h));
  }
  if (!h.who.reason.empty()) sheet.line("", "reason {}", printable(h.who.reason));
  if (!h.who.command.empty()) sheet.line("", "command {}", printable(h.who.command));
  if (h.revoked) sheet.line("", "was asked to stop (release --revoke)");
}

// Returns the start that --once-per recorded, and its age if the backend's clock is known.
std::string noted_at(std::int64_t at, const Result<RunStarts>& starts) {
  if (!starts || !starts->last) return run::utc(at);
  const Duration ahead = run::OncePer::ahead(*starts);
  if (ahead > 0us)
    return fmt::format("{}, {} in the future (the clock of the backend was ahead)", run::utc(at),
                       format_duration(ahead));
  return fmt::format("{}, {} ago", run::utc(at), format_duration(Duration{starts->now - at}));
}

// Adds the record of the last run, and the start that --once-per recorded, which may belong to the
// same run. If the start is newer than that run, it has no end yet: the job runs, or its dlock was
// killed.
void add_runs(Sheet& sheet, const KeyView& k, const Traits& traits,
              const Result<RunStarts>& starts) {
  const auto& last = k.last_run;
  const auto noted = starts && starts->last ? starts->last->at : k.noted_start;
  const bool same = last && noted && *noted >= last->started && *noted <= last->ended;
  const bool newer = noted && (!last || *noted > last->ended);
  const std::string start = noted ? noted_at(*noted, starts) : "";
  if (newer && state_of(k) == KeyState::held) sheet.line("started", "{}, with --once-per", start);
  else if (newer)
    sheet.line("last run", "started {}, with --once-per, {}", start,
               traits.keeps_last_run ? "end unknown" : "its end is not recorded by this recipe");
  if (last) {
    sheet.line(newer ? "earlier" : "last run", "{}, token {}, {}", last->who.text(), last->token,
               ending(last->end, "exit status", "ended by signal"));
    const Duration lasted{std::max<std::int64_t>(0, last->ended - last->started)};
    sheet.line("", "started {}, lasted {}",
               same ? start + ", with --once-per" : run::utc(last->started),
               format_duration(lasted));
  }
  if (noted && !same && !newer) sheet.line("once-per", "last started {}", start);
}

// Adds when each calendar period allows the next start.
void add_next_starts(Sheet& sheet, const RunStarts& s) {
  std::string next;
  using C = run::OncePer::Calendar;
  for (const C c : {C::hour, C::day, C::week, C::month}) {
    const run::OncePer period{c, {}};
    const Duration left{period.next_after(s.last->at) - s.now};
    next +=
        fmt::format("{} {}, ", period.text(), left <= 0us ? "now" : "in " + format_duration(left));
  }
  sheet.line("next", "by --once-per {}or a duration after the start; time zone {}", next,
             run::time_zone_name());
}

// Adds the commands with which an operator can end the first holder, the gentlest first.
void add_ways_to_end(Sheet& sheet, const KeyView& k, const OpenStore& opened) {
  const HolderView& h = k.holders.front();
  const std::string release = "dlock release" + opened.options + " --key " + sh_word(k.key);
  const auto listening = [&](const HolderView& one) {
    return !one.vanished && why_irrevocable(k, one).empty();
  };
  if (opened.store.traits->revokes && !h.revoked && std::ranges::any_of(k.holders, listening))
    sheet.line("revoke", "{} --revoke --wait 1m{}", release,
               holding(k) > 1 ? fmt::format(" # asks all {} holders", holding(k)) : "");
  if (!h.vanished && run::find_process(h.who) == run::Presence::lives)
    sheet.line("kill", "kill {}", h.who.pid);
  if (const HolderView* one = removable(k))
    sheet.line("force", "{} {}", release, force_options(*one));
  else sheet.line("end", "not by --force: {}", h.stays_because);
}

std::string state_line(const KeyView& k, const Traits& traits) {
  if (state_of(k) == KeyState::unknown) return "?, " + printable(k.unknown_reason);
  std::string text(state_name(state_of(k)));
  if (!k.holders.empty()) text += fmt::format(", {}", mode_name(k.holders.front().mode));
  text += with(", ", permits(k));
  if (!has_no_record(k)) return text;
  return text + (traits.keeps_last_run ? " (the backend has no record of this key)"
                                       : " (this recipe keeps no record of a free key)");
}

}  // namespace

std::string text_of_key(const KeyView& k, const OpenStore& opened,
                        const Result<RunStarts>& starts) {
  const Traits& traits = *opened.store.traits;
  Sheet sheet;
  sheet.line("key", "{}", printable(k.key));
  sheet.line("state", "{}", state_line(k, traits));
  sheet.line("token", "{}", k.fence ? fmt::format("{} is the newest granted", k.fence) : "-");
  for (const HolderView& h : k.holders) add_holder(sheet, k, h);
  if (!k.waiters_known) sheet.line("waiting", "?");
  for (std::size_t i = 0; i < k.waiters.size(); ++i) {
    const WaiterView& w = k.waiters[i];
    sheet.line(i ? "" : "waiting", "{} {}, {}, asked {}{}", i + 1, w.who.text(), mode_name(w.mode),
               request_time(w.who), with(", reason ", w.who.reason));
  }
  add_runs(sheet, k, traits, starts);
  if (!starts) sheet.line("once-per", "? ({})", printable(starts.error().message));
  else if (starts->last) add_next_starts(sheet, *starts);
  for (const std::string& n : k.notes) sheet.line("note", "{}", printable(n));
  if (state_of(k) != KeyState::unknown && !k.unknown_reason.empty())
    sheet.line("note", "{}", printable(k.unknown_reason));
  sheet.line("where", "{}, recipe {}", printable(opened.backend->where()), traits.recipe);
  if (holding(k) > 0) add_ways_to_end(sheet, k, opened);
  return std::move(sheet).text();
}

std::string text_of_unknown_key(const Key& key) {
  Sheet sheet;
  sheet.line("key", "{}", printable(key.text()));
  sheet.line("state", "?");
  return std::move(sheet).text();
}

}  // namespace dlock::cli
