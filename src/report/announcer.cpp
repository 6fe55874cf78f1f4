// SPDX-License-Identifier: Apache-2.0
#include "report/announcer.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>
#include "core/duration.hpp"
#include "core/text.hpp"
#include "job/process.hpp"
#include "util/overloaded.hpp"
#include "util/terminal.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

namespace {

std::int64_t millis(Deadline from, Deadline to) { return (to - from) / 1ms; }

std::string consequence(const OnLost& o) {
  if (o.what == OnLost::Do::signal)
    return fmt::format("the command was sent signal {} and goes on (--on-lost)", o.signal);
  if (o.what == OnLost::Do::exec) return "the command goes on; the --on-lost command was started";
  return "the command is being ended";
}

std::string list(const std::vector<pid_t>& pids) {
  std::string text;
  for (std::size_t i = 0; i < pids.size() && i < 8; ++i)
    text += fmt::format("{}{}", i ? ", " : "", pids[i]);
  if (pids.size() > 8) text += fmt::format(" and {} more", pids.size() - 8);
  return text;
}

// Hints at -c if the command looks like a shell line given as one word.
const char* shell_hint(const Plan& plan, int error) {
  const bool line = std::strchr(plan.command[0], ' ') && !std::strchr(plan.command[0], '/');
  return error == ENOENT && line ? "; -c runs a line by the shell" : "";
}

}  // namespace

bool redraws(const Plan& plan) {
  return !plan.output.quiet && !plan.output.log_json && can_redraw(STDERR_FILENO);
}

Announcer::Announcer(const Plan& plan, Output& output)
    : plan_(plan),
      output_(output),
      wait_line_(
          redraws(plan) ? WaitLine::Style::redrawn : WaitLine::Style::repeated, Clock::now(),
          [&output](std::string text) { output.raw(std::move(text)); },
          [&output](const std::string& line) { output.inform(line); }) {}

void Announcer::inform(std::string_view what) {
  output_.inform(fmt::format("{}: {}", output_.key(), what));
}

void Announcer::error(std::string_view what) {
  output_.error(fmt::format("{}: {}", output_.key(), what));
}

// ---- the lock ----------------------------------------------------------------------------------

void Announcer::report(KeeperEvent& e, const Policy& policy, Deadline now) {
  const auto cases = Overloaded{
      [&](event::StillWaiting& still) {
        Waiting& waiting = still.reply;
        if (plan_.has_job() && !std::exchange(has_reported_waiting_, true))
          output_.status("waiting", {{"ahead", static_cast<std::int64_t>(waiting.ahead)}});
        if (policy.waiting()) still_waiting(waiting, now);
        if (waiting.sent_at == Deadline{}) return;
        answer_ = std::move(waiting);
        no_answer_.clear();
      },
      [&](event::NoAnswer& none) {
        if (none.reached) failing_since_ = no_deadline;
        else if (policy.waiting()) unreachable(none.why, now);
        no_answer_ = std::move(none.why);
      },
      [&](event::Renewed& kept) {
        if (!plan_.has_job()) {
          if (plan_.timing.leased) output_.status("renewed");
          return;
        }
        if (std::exchange(failing_, false)) inform("renewed again");
        if (kept.deadline != no_deadline)
          output_.status("renewed", {{"deadline_ms", millis(now, kept.deadline)}});
      },
      [&](event::RenewFailed& failed) {
        renewal_failed(failed.why, policy.deadlines().term_at, now);
      },
      [&](event::KeeperLost& lost) { reason_ = std::move(lost.why); },
      [&](event::WaitEnded& ended) {
        wait_line_.clear();
        output_.error(ended.message);
      },
      [&](event::ReleaseDone& done) {
        if (!done.confirmed) reason_ = std::move(done.why);
        else if (plan_.handle) output_.status("left", {}, "left to the owner of --handle");
        else if (plan_.has_job())
          output_.status("released", {},
                         fmt::format("released, {} after the start", output_.age()));
      },
      [&](event::DetachDone& done) {
        if (!done.confirmed) reason_ = std::move(done.why);
        else output_.status("detached", {}, "kept by the store until --min-hold is over");
      },
      [](auto&) {}};
  std::visit(cases, e);
}

void Announcer::acquired(const Lease& lease) {
  const bool timed = plan_.has_job() && lease.deadline != no_deadline;
  const auto left = timed ? FieldValue(millis(Clock::now(), lease.deadline)) : FieldValue();
  output_.status("acquired",
                 {{"token", static_cast<std::int64_t>(lease.token)}, {"deadline_ms", left}},
                 fmt::format("acquired after {}, token {}", output_.age(), lease.token));
}

void Announcer::renewal_failed(const std::string& why, Deadline term_at, Deadline now) {
  if (!plan_.has_job()) {
    output_.status("renew_failed", {{"error", why}});
    return inform(fmt::format("cannot renew ({})", why));
  }
  const std::int64_t left = millis(now, term_at);
  if (plan_.timing.leased)
    output_.status("renew_failed", {{"error", why}, {"job_ends_in_ms", left}});
  if (std::exchange(failing_, true)) return;
  if (!plan_.timing.leased) return inform(fmt::format("cannot check the lock ({})", why));
  output_.status("jeopardy", {{"job_ends_in_ms", left}});
  inform(fmt::format("cannot renew ({}); the command is ended in {} unless that changes", why,
                     format_duration(Duration(std::max<std::int64_t>(0, left) * 1000))));
}

void Announcer::lost() {
  const std::string why = reason_.empty() ? "the lease could not be renewed in time" : reason_;
  output_.status("lost", {{"why", reason_.empty() && plan_.has_job() ? "the lease ran out" : why}});
  error(fmt::format("the lock is lost ({}){}", why,
                    plan_.has_job() ? "; " + consequence(plan_.on_lost) : ""));
}

void Announcer::not_released() {
  output_.status("not_released", {{"error", reason_}});
  error(fmt::format(
      "not released ({}); what is left of the lock ends {}",
      reason_.empty() ? "no answer in time" : reason_,
      plan_.timing.leased || !plan_.request.attached ? "by its ttl" : "with this process"));
}

// ---- the job -----------------------------------------------------------------------------------

void Announcer::report(const GuardEvent& e) {
  const auto cases = Overloaded{
      [&](const event::JobStarted& started) {
        output_.trace("child_start", "job", {{"child", std::int64_t{started.job}}});
      },
      [&](const event::StartFailed& failed) {
        start_failed(why({failed.call, failed.error}));
      },
      [&](const event::ExecFailed& failed) {
        output_.error(fmt::format("{}: {}{}", printable(plan_.command[0]),
                                  std::strerror(failed.error), shell_hint(plan_, failed.error)));
      },
      [&](const event::Expired&) {
        if (std::exchange(expired_, true) || plan_.on_lost.what != OnLost::Do::kill) return;
        sends_end(plan_.end_signal);
        output_.trace("term_sent", "job");
      },
      [&](const event::MaxRunOver&) { sends_end(plan_.end_signal); },
      [&](const event::Killing&) {
        output_.status("kill");
        output_.trace("kill_sent", "job");
      },
      [&](const event::TreeDead&) { job_is_dead(); },
      [](const auto&) {}};
  std::visit(cases, e);
}

void Announcer::start_failed(const std::string& why) {
  error("the command cannot be started: " + why);
}

void Announcer::sends_end(int signal) {
  output_.status("term", {{"signal", std::int64_t{signal}}});
}

void Announcer::watched_ended() {
  wait_line_.clear();
  inform("the process of --watch-pid has ended");
}

void Announcer::program_ended(const ProgramEnded& ended) {
  output_.status("command_ended", {{ended.end.by_signal ? "signal" : "code", ended.end.value},
                                   {"members", ended.left}});
}

void Announcer::job_is_dead() {
  output_.status("job_dead");
  output_.trace("tree_dead", "job");
}

void Announcer::exit(const Outcome& outcome) {
  const char* const by = outcome.by_signal ? "signal" : "code";
  const std::int64_t value = outcome.value;
  output_.status("exit", {{"result", result_name(outcome.how)}, {by, value}});
  if (plan_.has_job()) output_.trace("exit", "run", {{by, value}});
}

void Announcer::announce(Note note, const std::vector<pid_t>& members, Deadline now) {
  wait_line_.clear();
  switch (note) {
    case Note::busy:
    case Note::silent: return wait_is_over(note, now);
    case Note::lost: return lost();
    case Note::revoked:
      output_.status("revoked");
      return error(
          plan_.has_job()
              ? "the holder was asked to stop (release --revoke); the command is being ended"
              : "released, because the holder was asked to stop (release --revoke)");
    case Note::stuck:
      output_.status("stuck");
      return error(
          fmt::format("killed, but not dead: {}; the lock is kept while it lasts", list(members)));
    case Note::descendants:
      return inform(
          fmt::format("the command has ended, its descendants have not: {}; the lock is held until "
                      "they end (--descendants=kill ends them, release leaves them alone)",
                      list(members)));
    case Note::holding:
      return inform(fmt::format("holding the lock until --min-hold {} is over",
                                format_duration(plan_.min_hold)));
    case Note::not_released: return not_released();
    case Note::guard_died: return error("the guard process died; the command is being killed");
    case Note::no_guard: return error("the guard process was killed; nothing is started");
    case Note::max_run:
      return error(fmt::format("--max-run {} is over; the command is being ended",
                               format_duration(plan_.max_run)));
    case Note::too_late: return inform("granted too late to start; waiting again");
  }
}

// ---- the wait ----------------------------------------------------------------------------------

void Announcer::still_waiting(const Waiting& waiting, Deadline now) {
  if (waiting.sent_at > Deadline{}) failing_since_ = no_deadline;
  if (failing_since_ != no_deadline || !wait_line_.due(now) || plan_.output.quiet) return;
  show(output_.held_line(waiting),
       plan_.traits.fifo ? fmt::format("(position {})", waiting.ahead + 1) : "");
  wait_line_.mark_shown(now);
}

// Reports a store that has been unreachable, or has sent malformed replies, for 2 s or longer.
// Repeats the report each second on a terminal, and at most every 10 min elsewhere.
void Announcer::unreachable(const std::string& why, Deadline now) {
  failing_since_ = std::min(failing_since_, now);
  if (now < later(failing_since_, 2s) || now < next_failing_ || plan_.output.quiet) return;
  show(why);
  next_failing_ = later(now, wait_line_.redrawn() ? Duration{1s} : Duration{10min});
}

void Announcer::show(const std::string& why, const std::string& position) {
  wait_line_.show({why, plan_.wait ? "up to " + format_duration(*plan_.wait) : "", position});
}

// Names the holder only if the request that showed this holder was sent less than --op-timeout + 1
// s ago.
void Announcer::wait_is_over(Note note, Deadline now) {
  const bool busy = note == Note::busy;
  output_.trace(busy ? "fail" : "info", "acquire");
  if (!busy)
    return no_answer_.empty() ? error("the store did not answer in time")
                              : output_.error(no_answer_);
  if (now > later(answer_.sent_at, plan_.timing.op_timeout + 1s)) answer_ = {.key = answer_.key};
  output_.error(output_.busy_line(answer_));
}

}  // namespace dlock::run
