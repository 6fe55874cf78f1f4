// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/session/session_waiter.hpp"

namespace dlock::zookeeper {

namespace {
constexpr unsigned most_breaks = 2;  // in one poll; after more breaks, the poll fails
}

SessionWaiter::~SessionWaiter() {
  const QueueNode* p = base_.find_place(request_.key, request_.owner);
  if (p && base_.lives(*p) && watch_ != 0) p->line->session->forget(watch_);
}

Result<Progress> SessionWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  sent_at_ = {};
  for (unsigned breaks = 0; breaks <= most_breaks;) {
    TRY(done, step(end));
    if (done) return std::move(*done);
    const QueueNode* p = base_.find_place(request_.key, request_.owner);
    if (p && p->line && !p->line->session->connected()) ++breaks;
  }
  return fail(Errc::timed_out, "acquire at {}: the connection breaks again and again",
              base_.where());
}

SessionWaiter::Step SessionWaiter::step(Deadline end) {
  TRY(found, place());
  QueueNode& p = *found;
  Session& s = *p.line->session;
  if (!p.granted()) return turn(s, p, end);
  s.forget(std::exchange(p.watch, 0));  // so that the node is read again
  return granted(p, Clock::now());
}

Result<QueueNode*> SessionWaiter::place() {
  const int interrupt = request_.wait ? base_.options().interrupt_fd : -1;
  for (bool anew = false;;) {
    const Deadline until = later(Clock::now(), base_.options().connect_timeout);
    TRY(line, base_.line_for(request_, until, interrupt));
    const std::int64_t session = line->session->id();
    const QueueNode* old = base_.find_place(request_.key, request_.owner);
    anew |= old && (old->given_up || (old->session != 0 && old->session != session));
    TRY(settled, base_.settle(request_.key));
    if (settled) continue;
    if (anew) {
      base_.renew_owner(request_);
      reset();
    }
    QueueNode& p = base_.place_for(request_);
    p.line = line;
    p.session = session;
    return &p;
  }
}

SessionWaiter::Step SessionWaiter::granted(QueueNode& p, Deadline sent) {
  p.node_state = NodeState::granted;
  TRY(proven, base_.prove(p, sent));
  const auto* kept = std::get_if<Kept>(&proven);
  if (!kept) return go_on;
  return Granted{kept->lease, -1, p.line->session->alarm_fd()};
}

WatchId SessionWaiter::new_watch(Session& s) {
  s.forget(watch_);
  beaten_ = {};  // that call read the node of the last watch
  return watch_ = s.new_watch();
}

bool SessionWaiter::shows_change(const Session::Call& reading) const {
  if (!reading || !reading.done() || unknown(reading.reply().rc)) return false;
  const NodeStat& now = reading.reply().stat;
  return reading.reply().rc != 0 || now.czxid != seen_.czxid || now.cversion != seen_.cversion ||
         (watches_data_ && now.version != seen_.version);
}

Session::Wake SessionWaiter::listen(Session& s, const std::string& watched, Deadline end) {
  const Duration pace = beat_of(request_.ttl);
  for (;;) {
    const Deadline now = Clock::now();
    if (now >= beat_) {
      // Send something often, and drop a server that is silent for two thirds of the ttl. The
      // library would wait for two thirds of the session's timeout, which may be much longer.
      if (beaten_.done()) beaten_ = s.exists(watched);
      else if (now - beaten_.reply().sent > request_.ttl * 2 / 3) s.drop();
      beat_ = later(now, pace);
    }
    const std::uint64_t connection = s.connection();
    const Session::Wake wake = s.listen(std::min(end, beat_), base_.options().interrupt_fd);
    if (wake != Session::Wake::nothing || Clock::now() >= end) return wake;
    if (!s.connected() || s.connection() != connection) return Session::Wake::event;
  }
}

Session::Wake SessionWaiter::listen_for_watch(Session& s, std::uint64_t connection,
                                              const std::string& watched, Deadline end) {
  using Wake = Session::Wake;
  for (;;) {
    if (shows_change(beaten_)) s.fire(watch_);
    const bool fired = s.fired(watch_);
    if (fired) ++base_.wakeups;
    if (fired || !s.connected() || s.connection() != connection) return Wake::event;
    if (Clock::now() >= end) return Wake::nothing;
    if (const Wake wake = listen(s, watched, end); wake != Wake::event) return wake;
  }
}

Result<void> SessionWaiter::cancel() {
  QueueNode* p = base_.find_place(request_.key, request_.owner);
  if (!p) return {};
  p->given_up = true;
  if (p->granted()) {
    TRY_VOID(base_.release(Lease{request_.key, request_.owner}, std::nullopt));
    return {};
  }
  TRY_VOID(base_.leave(*p));
  base_.forget(*p);
  return {};
}

}  // namespace dlock::zookeeper
