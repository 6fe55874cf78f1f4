// SPDX-License-Identifier: Apache-2.0
#include "run/announcer.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>
#include "core/duration.hpp"
#include "core/text.hpp"
#include "run/process.hpp"

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

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace

Announcer::Announcer(const Plan& plan, Output& output)
    : plan_(plan), output_(output), line_(plan, output) {}

std::string Announcer::key() const { return output_.key(); }

// ---- the lock ----------------------------------------------------------------------------------

void Announcer::report(KeeperEvent& e, const Policy& policy, Deadline now) {
  std::visit(
      Overloaded{
          [&](Waiting& waiting) {
            if (has_job() && !std::exchange(said_waiting_, true))
              output_.status("waiting", {{"ahead", static_cast<std::int64_t>(waiting.ahead)}});
            if (policy.waiting()) line_.update(waiting, now);
          },
          [&](event::Answered& answer) { line_.answered(std::move(answer)); },
          [&](event::NoAnswer& none) {
            if (!none.reached && policy.waiting()) line_.fails(none.why, now);
            line_.no_answer(std::move(none.why));
          },
          [&](event::Kept& kept) {
            if (!has_job()) {
              if (plan_.timing.leased) output_.status("renewed");
              return;
            }
            if (std::exchange(failing_, false))
              output_.inform(fmt::format("{}: renewed again", key()));
            if (kept.deadline != no_deadline)
              output_.status("renewed", {{"deadline_ms", millis(now, kept.deadline)}});
          },
          [&](event::RenewFailed& failed) {
            renewal_failed(failed.why, policy.deadlines().term_at, now);
          },
          [&](event::KeeperLost& lost) { reason_ = std::move(lost.why); },
          [&](event::WaitEnded& ended) {
            line_.clear();
            output_.error(ended.message);
          },
          [&](event::ReleaseDone& done) {
            if (!done.confirmed) reason_ = std::move(done.why);
            else if (plan_.borrowed) output_.status("left", {}, "left to the owner of --handle");
            else if (has_job())
              output_.status("released", {},
                             fmt::format("released, {} after the start", output_.age()));
          },
          [&](event::DetachDone& done) {
            if (!done.confirmed) reason_ = std::move(done.why);
            else output_.status("detached", {}, "kept by the store until --min-hold is over");
          },
          [](auto&) {}},
      e);
}

void Announcer::acquired(const Lease& lease) {
  const auto token = static_cast<std::int64_t>(lease.token);
  const std::string milestone =
      fmt::format("acquired after {}, token {}", output_.age(), lease.token);
  if (!has_job() || lease.deadline == no_deadline)
    return output_.status("acquired", {{"token", token}}, milestone);
  output_.status("acquired",
                 {{"token", token}, {"deadline_ms", millis(Clock::now(), lease.deadline)}},
                 milestone);
}

void Announcer::renewal_failed(const std::string& why, Deadline term_at, Deadline now) {
  if (!has_job()) {
    output_.status("renew_failed", {{"error", why}});
    return output_.inform(fmt::format("{}: cannot renew ({})", key(), why));
  }
  const std::int64_t left = millis(now, term_at);
  if (plan_.timing.leased)
    output_.status("renew_failed", {{"error", why}, {"job_ends_in_ms", left}});
  if (std::exchange(failing_, true)) return;
  if (!plan_.timing.leased)
    return output_.inform(fmt::format("{}: cannot check the lock ({})", key(), why));
  output_.status("jeopardy", {{"job_ends_in_ms", left}});
  output_.inform(
      fmt::format("{}: cannot renew ({}); the command is ended in {} unless that changes", key(),
                  why, format_duration(Duration(std::max<std::int64_t>(0, left) * 1000))));
}

void Announcer::lost() {
  const std::string why = reason_.empty() ? "the lease could not be renewed in time" : reason_;
  output_.status("lost", {{"why", reason_.empty() && has_job() ? "the lease ran out" : why}});
  output_.error(fmt::format("{}: the lock is lost ({}){}", key(), why,
                            has_job() ? "; " + consequence(plan_.on_lost) : ""));
}

void Announcer::not_released() {
  if (!has_job()) return output_.error(fmt::format("{}: not released ({})", key(), reason_));
  output_.status("not_released", {{"error", reason_}});
  output_.error(fmt::format("{}: not released ({}); what is left of the lock ends {}", key(),
                            reason_.empty() ? "no answer in time" : reason_,
                            plan_.timing.leased ? "by its ttl" : "with this process"));
}

// ---- the job -----------------------------------------------------------------------------------

void Announcer::report(const GuardEvent& e) {
  std::visit(
      Overloaded{[&](const event::JobStarted& started) {
                   output_.trace("child_start", "job", {{"child", std::int64_t{started.job}}});
                 },
                 [&](const event::StartFailed& failed) {
                   start_failed(why({failed.call, failed.error}));
                 },
                 [&](const event::ExecFailed& failed) {
                   output_.error(fmt::format("{}: {}{}", printable(plan_.command[0]),
                                             std::strerror(failed.error),
                                             shell_hint(plan_, failed.error)));
                 },
                 [&](const event::Expired&) {
                   if (std::exchange(expired_, true) || plan_.on_lost.what != OnLost::Do::kill)
                     return;
                   sends_end(plan_.end_signal);
                   output_.trace("term_sent", "job");
                 },
                 [&](const event::MaxRunOver&) { sends_end(plan_.end_signal); },
                 [&](const event::Killing&) {
                   output_.status("kill");
                   output_.trace("kill_sent", "job");
                 },
                 [&](const event::TreeDead&) {
                   output_.status("job_dead");
                   output_.trace("tree_dead", "job");
                 },
                 [](const auto&) {}},
      e);
}

void Announcer::start_failed(const std::string& why) {
  output_.error(fmt::format("{}: the command cannot be started: {}", key(), why));
}

void Announcer::sends_end(int signal) {
  output_.status("term", {{"signal", std::int64_t{signal}}});
}

void Announcer::exit(const Outcome& outcome) {
  const char* const by = outcome.by_signal ? "signal" : "code";
  const std::int64_t value = outcome.value;
  output_.status("exit", {{"result", result_name(outcome.how)}, {by, value}});
  if (has_job()) output_.trace("exit", "run", {{by, value}});
}

void Announcer::say(Note note, const std::vector<pid_t>& members, Deadline now) {
  line_.clear();
  switch (note) {
    case Note::busy:
    case Note::silent: return line_.ended(note == Note::busy, now);
    case Note::lost: return lost();
    case Note::revoked:
      output_.status("revoked");
      output_.error(fmt::format(
          "{}: {}", key(),
          has_job() ? "the holder was asked to stop (release --revoke); the command is being ended"
                    : "released, because the holder was asked to stop (release --revoke)"));
      return;
    case Note::stuck:
      output_.status("stuck");
      output_.error(fmt::format("{}: killed, but not dead: {}; the lock is kept while it lasts",
                                key(), list(members)));
      return;
    case Note::descendants:
      output_.inform(
          fmt::format("{}: the command has ended, its descendants have not: {}; the lock is held "
                      "until they end (--descendants=kill ends them)",
                      key(), list(members)));
      return;
    case Note::holding:
      output_.inform(fmt::format("{}: holding the lock until --min-hold {} is over", key(),
                                 format_duration(plan_.min_hold)));
      return;
    case Note::not_released: return not_released();
    case Note::guard_died:
      output_.error(fmt::format("{}: the guard process died; the command is being killed", key()));
      return;
    case Note::no_guard:
      output_.error(fmt::format("{}: the guard process was killed; nothing is started", key()));
      return;
    case Note::max_run:
      output_.error(fmt::format("{}: --max-run {} is over; the command is being ended", key(),
                                format_duration(plan_.max_run)));
      return;
    case Note::too_late:
      output_.inform(fmt::format("{}: granted too late to start; waiting again", key()));
      return;
  }
}

}  // namespace dlock::run
