// SPDX-License-Identifier: Apache-2.0
#include "run/taker.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>
#include <cerrno>
#include "core/exit_status.hpp"
#include "core/text.hpp"
#include "run/signals.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

Taker::Taker(const Plan& plan, const Entry& entry, Events& events,
             const std::function<bool(const std::vector<Lease>&)>& on_granted, Staying stays)
    : plan_(plan),
      events_(events),
      on_granted_(on_granted),
      stays_(stays),
      signals_(entry.open_signals()),
      keeper_(*new Keeper(plan, events)),
      waiting_line_(plan, events),
      wait_(wait_rules(plan)) {}

Outcome Taker::run() {
  for (const FailedCall& call : {signals_.failed(), timer_.failed(), keeper_.failed()})
    if (call) {
      events_.error(why(call));
      return {false, status_unavailable, "error"};
    }
  keeper_.start();
  while (!over_) {
    timer_.arm(std::min({lost_at_, answer_by_, holding_ ? hold_until_ : no_deadline,
                         waits() ? wait_.over_at() : no_deadline}));
    pollfd p[] = {{signals_.fd(), POLLIN, 0},
                  {keeper_.fd(), POLLIN, 0},
                  {timer_.fd(), POLLIN, 0},
                  {holding_ && stays_.until_stdin_ends ? STDIN_FILENO : -1, POLLIN, 0},
                  {stays_.watch, POLLIN, 0},
                  {holding_ ? stays_.listener : -1, POLLIN, 0},
                  {holding_ ? -1 : stays_.asker, POLLIN, 0}};
    ::poll(p, std::size(p), -1);
    timer_.drain();
    const Deadline now = Clock::now();
    for (Keeper::Report& r : keeper_.reports()) std::visit([&](auto& what) { on(what, now); }, r);
    if (!over_ && now >= lost_at_) lose("the lease could not be renewed in time", now);
    if (!over_ && waits() && now >= wait_.over_at()) wait_over_ = true, leave({}, now);
    if (!over_ && now >= answer_by_) leaving_ ? left(now) : end(outcome_);
    while (!over_) {
      const auto s = signals_.next();
      if (!s) break;
      on_signal(static_cast<int>(s->ssi_signo), now);
    }
    if (over_) break;
    if (holding_ && p[3].revents != 0 && stdin_ended())
      give_back({false, status_ok, "command"}, now);
    else if (holding_ && now >= hold_until_) give_back({false, status_ok, "max_hold"}, now);
    else if (p[4].revents != 0 && !asked_) caller_is_gone(now);
    else if (p[6].revents != 0 && !asked_ && !holding_) leave({false, status_ok, "error"}, now);
    else if (holding_ && p[5].revents != 0) on_question(now);
  }
  waiting_line_.clear();
  events_.status("exit", {{"result", outcome_.result},
                          {outcome_.by_signal ? "signal" : "code", std::int64_t{outcome_.value}}});
  return outcome_;
}

void Taker::on(const Waiting& w, Deadline now) {
  if (waits()) waiting_line_.update(w, now);
}

void Taker::on(Keeper::Answered& a, Deadline) {
  waiting_line_.answered(a.asked_at, std::move(a.holder), std::move(a.why));
  wait_.answered(a.asked_at);
}

void Taker::on(Keeper::NoAnswer& n, Deadline now) {
  if (n.failed && waits()) waiting_line_.fails(n.why, now);
  waiting_line_.no_answer(std::move(n.why));
  n.failed ? wait_.failed() : wait_.grants_nothing();
}

void Taker::on(Keeper::Granted& g, Deadline now) {
  if (asked_) return;  // leaving: the keeper releases it
  granted_ = true;
  waiting_line_.clear();
  owner_ = g.lease.owner;
  lease_deadline(g.lease.deadline);
  events_.status("acquired", {{"token", static_cast<std::int64_t>(g.lease.token)}});
  std::vector<Lease> all{g.lease};
  all.insert(all.end(), g.more.begin(), g.more.end());
  if (!on_granted_(all)) return give_back({false, status_failed_holding, "failed"}, now);
  if (!stays_.at_all) return end({false, status_ok, "command"});
  holding_ = true;
  if (stays_.max_hold > 0us) hold_until_ = later(now, stays_.max_hold);
}

void Taker::on(const Keeper::Kept& k, Deadline now) {
  if (plan_.timing.leased) events_.status("renewed");
  lease_deadline(k.deadline);
  if (!k.revoked || !holding_) return;
  events_.status("revoked");
  events_.error(fmt::format("{}: released, because the holder was asked to stop (release --revoke)",
                            printable(plan_.request.key.text())));
  give_back({false, status_revoked, "revoked"}, now);
}

void Taker::on(const Keeper::RenewFailed& f, Deadline) {
  events_.status("renew_failed", {{"error", f.why}});
  events_.words(fmt::format("{}: cannot renew ({})", printable(plan_.request.key.text()), f.why));
}

void Taker::on(const Keeper::Ended& e, Deadline) {
  waiting_line_.clear();
  events_.error(e.message);
  end(leaving_ && !wait_over_ ? outcome_ : Outcome{false, e.status, e.busy ? "busy" : "error"});
}

void Taker::on(const Keeper::Released& r, Deadline) {
  if (!r.confirmed && outcome_.value != status_lost)
    events_.error(fmt::format("{}: not released ({})", printable(plan_.request.key.text()), r.why));
  if (question_ && r.unknown) answer_unknown(*question_);
  else if (question_) answer(*question_, r.confirmed ? KeeperAnswer::done : KeeperAnswer::not_held);
  end(outcome_);
}

void Taker::on_signal(int signal, Deadline now) {
  if (stops(signal)) return take_default(signal);
  if (ignored_by_default(signal)) return;
  if (signal == last_signal_ && now - last_signal_at_ < same_request) return;
  last_signal_ = signal;
  last_signal_at_ = now;
  const Outcome by{true, signal, "signal"};
  if (holding_) return give_back(by, now);
  if (leaving_ && ends(signal)) return end(by);
  if (!asked_) leave(by, now);
}

void Taker::caller_is_gone(Deadline now) {
  const Outcome gone{false, status_ok, "caller_gone"};
  holding_ ? give_back(gone, now) : leave(gone, now);
}

void Taker::on_question(Deadline now) {
  KeeperQuestion q = next_question(stays_.listener, owner_);
  if (q.what.empty()) return;
  if (q.what != "release") return answer(q, KeeperAnswer::done);
  question_ = std::move(q);  // answered once the store has answered
  give_back({false, status_ok, "command"}, now);
}

void Taker::leave(Outcome o, Deadline now) {
  asked_ = leaving_ = true;
  outcome_ = o;
  answer_by_ = later(now, time_to_leave);
  keeper_.leave();
}

// The queue; or the keeper did not return in time.
void Taker::left(Deadline now) {
  if (!wait_over_) return end(outcome_);
  const bool busy = wait_.busy();
  waiting_line_.ended(busy, now);
  end({false, busy ? plan_.conflict_status : status_unavailable, busy ? "busy" : "error"});
}

void Taker::give_back(Outcome o, Deadline now) {
  // the release under way has the store's time for one answer, whatever signals come
  if (asked_) return;
  asked_ = true;
  holding_ = false;
  lost_at_ = no_deadline;
  outcome_ = o;
  answer_by_ = later(now, plan_.timing.op_timeout);
  keeper_.release();
}

void Taker::lose(const std::string& why, Deadline now) {
  if (asked_) return;
  events_.status("lost", {{"why", why}});
  events_.error(fmt::format("{}: the lock is lost ({})", printable(plan_.request.key.text()), why));
  const Outcome lost{false, status_lost, "lost"};
  // of several keys the others are held
  plan_.more_keys.empty() ? end(lost) : give_back(lost, now);
}

void Taker::lease_deadline(Deadline d) {
  if (!asked_)
    lost_at_ = d == no_deadline || !stays_.at_all ? no_deadline : d - plan_.timing.margin;
}

void Taker::end(Outcome o) {
  over_ = true;
  outcome_ = o;
}

bool Taker::stdin_ended() {
  char sink[4096];
  const ssize_t n = ::read(STDIN_FILENO, sink, sizeof sink);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace dlock::run
