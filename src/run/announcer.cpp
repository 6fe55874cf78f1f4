// SPDX-License-Identifier: Apache-2.0
#include "run/announcer.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include "core/duration.hpp"
#include "core/text.hpp"

namespace dlock::run {

using namespace std::chrono_literals;
using Note = Action::Note;

namespace {

std::int64_t millis(Deadline from, Deadline to) { return (to - from) / 1ms; }

std::string consequence(const OnLost& o) {
  if (o.what == OnLost::Do::signal)
    return fmt::format("the command was sent signal {} and goes on (--on-lost)", o.signal);
  if (o.what == OnLost::Do::exec) return "the command goes on; the one of --on-lost was started";
  return "the command is being ended";
}

std::string list(const std::vector<pid_t>& pids) {
  std::string text;
  for (std::size_t i = 0; i < pids.size() && i < 8; ++i)
    text += fmt::format("{}{}", i ? ", " : "", pids[i]);
  if (pids.size() > 8) text += fmt::format(" and {} more", pids.size() - 8);
  return text;
}

// A shell line given as one word.
const char* shell_hint(const Plan& plan, int error) {
  const bool line = std::strchr(plan.command[0], ' ') && !std::strchr(plan.command[0], '/');
  return error == ENOENT && line ? "; -c runs a line by the shell" : "";
}

}  // namespace

Announcer::Announcer(const Plan& plan, Events& events)
    : plan_(plan), events_(events), line_(plan, events) {}

std::string Announcer::key() const { return printable(plan_.request.key.text()); }

// ---- the wait ----------------------------------------------------------------------------------

void Announcer::answered(Deadline asked_at, std::optional<HolderView> holder, std::string why) {
  line_.answered(asked_at, std::move(holder), std::move(why));
}

void Announcer::no_answer(std::string why, bool failing, Deadline now) {
  if (failing) line_.fails(why, now);
  line_.no_answer(std::move(why));
}

void Announcer::waits(const Waiting& waiting, bool still, Deadline now) {
  if (!std::exchange(said_waiting_, true))
    events_.status("waiting", {{"ahead", static_cast<std::int64_t>(waiting.ahead)}});
  if (still) line_.update(waiting, now);
}

void Announcer::wait_ended(const std::string& message) {
  line_.clear();
  events_.error(message);
}

// ---- the lock ----------------------------------------------------------------------------------

void Announcer::acquired(const Lease& lease) {
  const auto token = static_cast<std::int64_t>(lease.token);
  if (lease.deadline == no_deadline) return events_.status("acquired", {{"token", token}});
  events_.status("acquired",
                 {{"token", token}, {"deadline_ms", millis(Clock::now(), lease.deadline)}});
}

void Announcer::kept(Deadline lease_end, Deadline now) {
  if (std::exchange(failing_, false)) events_.words(fmt::format("{}: renewed again", key()));
  if (lease_end != no_deadline)
    events_.status("renewed", {{"deadline_ms", millis(now, lease_end)}});
}

void Announcer::renewal_failed(const std::string& why, Deadline term_at, Deadline now) {
  const std::int64_t left = millis(now, term_at);
  if (plan_.timing.leased)
    events_.status("renew_failed", {{"error", why}, {"job_ends_in_ms", left}});
  if (std::exchange(failing_, true)) return;
  if (!plan_.timing.leased)
    return events_.words(fmt::format("{}: cannot check the lock ({})", key(), why));
  events_.status("jeopardy", {{"job_ends_in_ms", left}});
  events_.words(fmt::format("{}: cannot renew ({}); the command is ended in {} unless that changes",
                            key(), why,
                            format_duration(Duration(std::max<std::int64_t>(0, left) * 1000))));
}

void Announcer::confirmed(const char* status, bool confirmed, std::string why) {
  if (confirmed) events_.status(status);
  else reason_ = std::move(why);
}

void Announcer::released(bool confirmed, std::string why) {
  this->confirmed(plan_.borrowed ? "left" : "released", confirmed, std::move(why));
}

void Announcer::detached(bool confirmed, std::string why) {
  this->confirmed("detached", confirmed, std::move(why));
}

// ---- the job -----------------------------------------------------------------------------------

void Announcer::started(int child) {
  events_.trace("child_start", "job", {{"child", std::int64_t{child}}});
}

void Announcer::start_failed(const std::string& why) {
  events_.error(fmt::format("{}: the command cannot be started: {}", key(), why));
}

void Announcer::exec_failed(int error) {
  events_.error(fmt::format("{}: {}{}", printable(plan_.command[0]), std::strerror(error),
                            shell_hint(plan_, error)));
}

void Announcer::ends(int signal) { events_.status("term", {{"signal", std::int64_t{signal}}}); }

void Announcer::of_guard(const Event& e) {
  if (std::holds_alternative<event::Expired>(e) && !std::exchange(expired_, true)) {
    if (plan_.on_lost.what == OnLost::Do::kill) {
      ends(plan_.end_signal);
      events_.trace("term_sent", "job");
    }
  } else if (std::holds_alternative<event::MaxRunOver>(e)) {
    ends(plan_.end_signal);
  } else if (std::holds_alternative<event::Killing>(e)) {
    events_.status("kill");
    events_.trace("kill_sent", "job");
  } else if (std::holds_alternative<event::TreeDead>(e)) {
    events_.status("job_dead");
    events_.trace("tree_dead", "job");
  }
}

void Announcer::exit(const Outcome& outcome) {
  const char* const by = outcome.by_signal ? "signal" : "code";
  const std::int64_t value = outcome.value;
  events_.status("exit", {{"result", outcome.result}, {by, value}});
  events_.trace("exit", "run", {{by, value}});
}

void Announcer::say(Note note, const std::vector<pid_t>& members, Deadline now) {
  line_.clear();
  switch (note) {
    case Note::busy:
    case Note::silent: return line_.ended(note == Note::busy, now);
    case Note::lost:
      events_.status("lost", {{"why", reason_.empty() ? "the lease ran out" : reason_}});
      events_.error(
          fmt::format("{}: the lock is lost ({}); {}", key(),
                      reason_.empty() ? "the lease could not be renewed in time" : reason_,
                      consequence(plan_.on_lost)));
      return;
    case Note::revoked:
      events_.status("revoked");
      events_.error(fmt::format(
          "{}: the holder was asked to stop (release --revoke); the command is being ended",
          key()));
      return;
    case Note::stuck:
      events_.status("stuck");
      events_.error(fmt::format("{}: killed, but not dead: {}; the lock is kept while it lasts",
                                key(), list(members)));
      return;
    case Note::descendants:
      events_.words(
          fmt::format("{}: the command has ended, its descendants have not: {}; the lock is held "
                      "until they end (--descendants=kill ends them)",
                      key(), list(members)));
      return;
    case Note::holding:
      events_.words(fmt::format("{}: holding the lock until --min-hold {} is over", key(),
                                format_duration(plan_.min_hold)));
      return;
    case Note::not_released:
      events_.status("not_released", {{"error", reason_}});
      events_.error(fmt::format("{}: not released ({}); what is left of the lock ends {}", key(),
                                reason_.empty() ? "no answer in time" : reason_,
                                plan_.timing.leased ? "by its ttl" : "with this process"));
      return;
    case Note::guard_died:
      events_.error(fmt::format("{}: the guard process died; the command is being killed", key()));
      return;
    case Note::no_guard:
      events_.error(fmt::format("{}: the guard process was killed; nothing is started", key()));
      return;
    case Note::max_run:
      events_.error(fmt::format("{}: --max-run {} is over; the command is being ended", key(),
                                format_duration(plan_.max_run)));
      return;
    case Note::too_late:
      events_.words(fmt::format("{}: granted too late to start; waiting again", key()));
      return;
  }
}

}  // namespace dlock::run
