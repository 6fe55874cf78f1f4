// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/session/session_backend.hpp"
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include "core/duration.hpp"
#include "zookeeper/records.hpp"

namespace dlock::zookeeper {

using namespace std::chrono_literals;

namespace {

constexpr Duration reading_timeout = 10s;  // for a session that holds nothing
constexpr unsigned most_proofs = 4;        // in a row, for one grant

// Returns the time since the data were written, if the leader's clock shows the same time as ours.
Duration since(const NodeStat& stat) { return Duration{wall_micros() - stat.mtime * 1000}; }

}  // namespace

SessionBackend::~SessionBackend() {
  for (SessionSlot& l : lines_) end_session(l);
}

Counters SessionBackend::counters() const noexcept {
  Counters c{closed_requests_, wakeups};
  for (const SessionSlot& l : lines_) c.requests += l.session ? l.session->requests : 0;
  return c;
}

// ---- sessions ----------------------------------------------------------------------------------

SessionSlot& SessionBackend::line(const std::optional<Owner>& owner, Duration ttl,
                                  Duration lock_delay) {
  const auto at = std::ranges::find_if(lines_, [&](const SessionSlot& l) {
    return l.owner == owner && (owner || (l.ttl == ttl && l.lock_delay == lock_delay));
  });
  return at != lines_.end() ? *at
                            : lines_.emplace_back(SessionSlot{owner, ttl, lock_delay, nullptr});
}

// Ends our use of a session. The session itself lives on if one of its grants is not released yet,
// or if a handle resumed the session. If the release of a grant with a lock-delay got no reply,
// this grant counts as not released.
void SessionBackend::end_session(SessionSlot& l) {
  if (!l.session) return;
  const auto on = [&](const QueueNode& p) { return p.line == &l && lives(p) && !p.node.empty(); };
  const bool holds = std::ranges::any_of(places_, [&](const QueueNode& p) {
    return on(p) && p.granted() && (!p.given_up || p.lock_delay > Duration{});
  });
  l.session->keep(holds || l.resumed);
  for (const QueueNode& p : places_)  // the session lives on, but its waiters' nodes must not
    if (holds && on(p) && !p.granted() && l.session->connected()) l.session->remove(p.node);
  closed_requests_ += l.session->requests;
  l.session.reset();
}

void SessionBackend::close(SessionSlot& l) {
  end_session(l);
  std::erase_if(places_, [&](const QueueNode& p) { return p.line == &l; });
  std::erase_if(lines_, [&](const SessionSlot& other) { return &other == &l; });
}

Result<Session*> SessionBackend::connected(SessionSlot& l, Deadline until, int interrupt_fd) {
  for (;;) {
    if (l.session && l.session->over()) end_session(l);
    if (!l.session)
      l.session = std::make_unique<Session>(options_, l.timeout(), std::nullopt, l.lock_delay);
    auto ok = l.session->connect(until, interrupt_fd);
    if (ok && l.session->connected()) return l.session.get();
    if (ok) continue;
    if (l.session->turned_away()) {
      TRY_VOID(retime(l, l.session->requested()));
      continue;
    }
    const bool denied = ok.error().code == Errc::denied;
    if (denied) end_session(l);
    if (!denied || !read_auth_again(options_)) return fail(std::move(ok.error()));
  }
}

Result<SessionSlot*> SessionBackend::line_for(const Request& r, Deadline until, int interrupt_fd) {
  SessionSlot& l = line(r.attached ? std::nullopt : std::optional{r.owner}, whole_ms(r.ttl),
                        whole_ms(r.lock_delay));
  TRY(session, connected(l, until, interrupt_fd));
  const Duration given = session->timeout();
  if (given == l.timeout()) return &l;
  const bool least = given > l.timeout();
  std::string wanted = fmt::format("--ttl {}", format_duration(l.ttl)), hint;
  if (l.lock_delay > Duration{}) {
    wanted = fmt::format("--lock-delay {} and {} make a session of {}",
                         format_duration(l.lock_delay), wanted, format_duration(l.timeout()));
    if (!least && given > l.ttl)
      hint = fmt::format("; --lock-delay up to {} fits", format_duration(given - l.ttl));
  }
  close(l);
  return fail(Errc::usage, "{}: sessions of {} last {} {} (its {}SessionTimeout){}", wanted,
              options_.where, least ? "at least" : "at most",
              least ? format_duration_up(given) : format_duration(given), least ? "min" : "max",
              hint);
}

Result<Session*> SessionBackend::reader() {
  const auto at = std::ranges::find_if(lines_, [](const SessionSlot& l) {
    return !l.owner && l.session && l.session->state() != Session::State::expired;
  });
  SessionSlot& l = at != lines_.end() ? *at : line(std::nullopt, reading_timeout, Duration{});
  return connected(l, later(Clock::now(), options_.connect_timeout), -1);
}

// Resumes the same session with a shorter timeout than it was created with, or with its first
// timeout again. As after a resume by another process, the session may now be at a server that has
// seen less than we have. Watches and open calls end.
Result<void> SessionBackend::retime(SessionSlot& l, Duration timeout) {
  const Ticket ticket = l.session->ticket();
  if (ticket.id == 0) return {};
  closed_requests_ += l.session->requests;
  l.session->keep(true);
  l.session.reset();
  l.session = std::make_unique<Session>(options_, timeout, ticket, l.lock_delay);
  for (QueueNode& p : places_)
    if (p.line == &l) p.watch = 0;
  return l.session->connect(op_deadline());
}

// ---- grants -------------------------------------------------------------------------------------

Result<Renewal> SessionBackend::renew(const Lease& lease, Duration ttl) {
  return renew_in(lease, ttl, false);
}

Result<Renewal> SessionBackend::renew_in(const Lease& lease, Duration ttl, bool ends_with_ttl,
                                         const std::optional<RunEnd>& end) {
  const Deadline until = op_deadline();
  TRY(p, ours(lease, until));
  if (!p || !p->granted()) return Lost{"the session that held it is over, or its node was removed"};
  SessionSlot& l = *p->line;
  const bool too_long = whole_ms(ttl) > l.ttl;
  const Duration timeout = ends_with_ttl && !too_long ? whole_ms(ttl) : l.timeout();
  if (l.session->requested() != timeout) { TRY_VOID(retime(l, timeout)); }
  for (;;) {
    Session& s = *l.session;
    TRY_VOID(s.connect(until));
    if (!lives(*p)) {
      forget(*p);
      return Lost{"the session that held it has expired"};
    }
    if (too_long)
      return fail(Errc::usage,
                  "--ttl {}: the session that holds it was made for {}, and no renewal "
                  "makes it longer; --ttl up to {}",
                  format_duration(ttl), format_duration(l.ttl), format_duration(l.ttl));
    // If the server resumed the session with a shorter timeout than requested, the lease ends
    // sooner, and the next renewal returns the reason.
    if (const Deadline shorter = s.proof().until() - p->lock_delay;
        s.timeout() < s.requested() && !ends_with_ttl && shorter < p->until) {
      Lease sooner = lease_of(*p, Clock::now());
      p->until = sooner.deadline = shorter;
      return Kept{std::move(sooner)};
    }
    if (s.timeout() < s.requested())
      return fail(Errc::usage, "--ttl {}: sessions of {} last at most {} (its maxSessionTimeout)",
                  format_duration(ttl), options_.where, format_duration(s.timeout()));
    const Session::Call proof = s.multi({{Op::Kind::check, p->node, {}, p->version}});
    watch(s, *p);
    TRY_VOID(done(s, "renew", {&proof, &p->reading}, until));
    const Reply &proved = proof.reply(), &read = p->reading.reply();
    if (unknown(proved.rc) || unknown(read.rc)) continue;  // try again until connect() fails
    const bool replaced = read.rc == ZOK && !p->is(read.stat);
    if (proved.rc == ZNONODE || read.rc == ZNONODE || replaced) {
      forget(*p);
      return Lost{"its node was removed"};
    }
    if (read.rc != ZOK) return fail(server_error(options_, "renew", read.rc));
    if (proved.rc == ZBADVERSION) {  // another client wrote to the node: a revocation
      p->version = read.stat.version;
      continue;
    }
    if (proved.rc != ZOK) return fail(server_error(options_, "renew", proved.rc));
    // One write proves little (proof.hpp), so send a second write after the reply to the first.
    const Session::Call again = s.multi({{Op::Kind::check, p->node, {}, p->version}});
    TRY_VOID(done(s, "renew", {&again}, until));
    if (const int rc = again.reply().rc; rc != ZOK) {
      if (unknown(rc) || rc == ZBADVERSION || rc == ZNONODE) continue;
      return fail(server_error(options_, "renew", rc));
    }
    p->ttl = ttl;
    if (ends_with_ttl) {
      p->lock_delay = Duration{};
      record_timeout(s, *p, read.text, timeout, end, until);
    }
    const Lease kept = lease_of(*p, proved.sent);
    p->until = kept.deadline;
    return Kept{kept, is_revoked(read.text, p->token, names_recur())};
  }
}

void SessionBackend::watch(Session& s, QueueNode& p) {
  if (p.watch == 0 || s.fired(p.watch)) {
    s.forget(p.watch);
    p.watch = s.new_watch();
  }
  p.reading = s.get(p.node, p.watch);
}

// The reply to the reading of our node is an alarm only if somebody has changed the node. While the
// reply has not arrived, there is no alarm. An error counts as a change.
bool SessionBackend::alarmed(const Lease& lease) {
  const QueueNode* p = find_place(lease.key, lease.owner);
  if (!p || !lives(*p)) return true;
  Session& s = *p->line->session;
  s.listen(Deadline{});
  if (!s.connected() || p->watch == 0 || s.fired(p->watch)) return true;
  if (!p->reading.done()) return false;
  const Reply& read = p->reading.reply();
  return read.rc != ZOK || read.stat.version != p->version || !p->is(read.stat);
}

Result<Renewal> SessionBackend::prove(QueueNode& p, Deadline sent) {
  const Duration wanted = proven_of(p.ttl, p.lock_delay, options_.tick);
  for (unsigned tries = 0;; ++tries) {
    const Lease lease = lease_of(p, sent);
    if (p.watch != 0 && lease.deadline >= later(sent, wanted)) {
      p.until = lease.deadline;
      p.granted_at = Clock::now();
      return Kept{lease};
    }
    if (tries == most_proofs)
      return fail(Errc::timed_out, "acquire at {}: its answers come too late to prove a ttl of {}",
                  options_.where, format_duration(p.ttl));
    // resume the session: a resumed session is proven from the time of the resume
    if (tries > 1) p.line->session->drop();
    sent = Clock::now();
    auto answer = renew(lease, p.ttl);
    if (!answer || !std::holds_alternative<Kept>(*answer)) return answer;
  }
}

Result<Renewal> SessionBackend::detach(const Lease& lease, Duration ttl,
                                       std::optional<RunEnd> end) {
  auto answer = renew_in(lease, ttl, true, end);
  if (!answer || !std::holds_alternative<Kept>(*answer)) return answer;
  QueueNode& p = *find_place(lease.key, lease.owner);
  p.attached = false;
  std::get<Kept>(*answer).lease.ticket = ticket_of(p).text();
  return answer;
}

Result<Released> SessionBackend::release(const Lease& lease, std::optional<RunEnd>) {
  const Deadline until = op_deadline();
  TRY(p, ours(lease, until));
  if (!p) return Released::was_not_held;
  p->given_up = true;
  SessionSlot& l = *p->line;
  // The lease has expired, so the holder has vanished. Nobody renews the session any more, and the
  // lock-delay runs until the session ends.
  if (p->lock_delay > Duration{} && p->until != Deadline{} && Clock::now() >= p->until) {
    close(l);
    return Released::was_not_held;
  }
  const auto over = [&](bool removed) {
    const bool by_us = removed || p->node_state == NodeState::releasing;
    forget(*p);
    const bool empty =
        std::ranges::none_of(places_, [&](const QueueNode& other) { return other.line == &l; });
    if (l.owner && empty && !l.resumed) close(l);
    return by_us ? Released::yes : Released::was_not_held;
  };
  for (;;) {
    TRY_VOID(l.session->connect(until));
    if (!lives(*p)) return over(false);
    Session& s = *l.session;
    if (names_recur()) {
      // Remaining race: 1. We read the node, and it is ours. 2. An operator removes the node by
      // force. 3. Another client creates a node with this name. 4. Our deletion removes that node.
      const Session::Call reading = s.exists(p->node);
      TRY_VOID(done(s, "release", {&reading}, until));
      const Reply& now = reading.reply();
      if (unknown(now.rc)) continue;
      if (now.rc == ZNONODE || (now.rc == ZOK && !p->is(now.stat))) return over(false);
    }
    const auto removed = [&](const std::vector<Op>& ops) -> Result<int> {
      const Session::Call call = remove(s, ops);
      auto ok = done(s, "release", {&call}, until);
      if (!ok || unknown(call.reply().rc)) p->node_state = NodeState::releasing;
      if (!ok) return fail(std::move(ok.error()));
      return call.reply().rc;
    };
    TRY(rc, removed(release_ops(p->node, p->slot)));
    if (rc != ZOK && !unknown(rc)) {
      // the node of the slot may have changed: remove the contender's node alone
      TRY(alone, removed({{Op::Kind::remove, p->node}}));
      rc = alone;
    }
    if (rc == ZOK || rc == ZNONODE) return over(rc == ZOK);
    if (!unknown(rc)) return fail(server_error(options_, "release", rc));
  }
}

// A single removal needs no multi.
Session::Call SessionBackend::remove(Session& s, const std::vector<Op>& ops) {
  return ops.size() == 1 ? s.remove(ops.front().path) : s.multi(ops);
}

Result<Validity> SessionBackend::check(const Key& key, const GrantId& id) {
  TRY(held, holders(key));
  const auto* owner = std::get_if<Owner>(&id);
  const bool found = std::ranges::any_of(held, [&](const Contender& h) {
    return owner ? is_of(h, *owner) : h.stat.token() == std::get<FencingToken>(id);
  });
  return found ? Validity::valid : Validity::stale;
}

Result<Released> SessionBackend::revoke(const Key& key) {
  TRY(held, holders(key));
  TRY(s, reader());
  Released result = Released::was_not_held;
  for (const Contender& h : held) {
    const std::string text = revoke_text(h.stat.token(), names_recur(), h.data);
    TRY(r, answer(*s, "revoke", s->set(h.path, text), op_deadline(), {ZNONODE}));
    if (r.rc == ZOK) result = Released::yes;
  }
  return result;
}

Result<Released> SessionBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  TRY(held, holders(key));
  TRY(s, reader());
  Released result = Released::was_not_held;
  for (const Contender& h : held) {
    if (token && h.stat.token() != *token) continue;
    const auto record = NodeRecord::parse(h.data);
    auto call = remove(*s, release_ops(h.path, record ? record->slot : std::nullopt));
    TRY(r, answer(*s, "force a release", std::move(call), op_deadline(), {ZNONODE}));
    if (r.rc == ZOK) result = Released::yes;
  }
  return result;
}

// `granted_at` stays empty. A node has two times, by the leader's clock: when it was created (the
// owner joined the queue), and when its data were last written (a revocation, another ttl). Nothing
// records when the lock was granted, and no read returns the servers' present time.
HolderView SessionBackend::view(const NodeStat& stat, std::string_view data, Mode mode) {
  HolderView v;
  v.mode = mode;
  v.token = stat.token();
  if (const auto r = NodeRecord::parse(data)) {
    v.id = r->id;
    v.slot = r->slot.value_or(0);
    v.remaining = r->timeout;  // counts from the last heartbeat, whose time only the leader knows
    if (r->run)                // counts from the time when the end of the run was recorded
      v.remaining = std::clamp<Duration>(r->timeout - since(stat), 1ms, r->timeout);
    v.who = r->who;
  }
  return v;
}

void SessionBackend::add_holder(KeyView& k, const Contender& c, HolderView h) {
  const auto record = NodeRecord::parse(c.data);
  if (record && record->run) {
    const std::int64_t ended = c.stat.mtime * 1000;
    k.last_run =
        LastRun{h.token, ended, record->run->end, ended - record->run->lasted.count(), record->who};
  }
  k.holders.push_back(std::move(h));
}

}  // namespace dlock::zookeeper
