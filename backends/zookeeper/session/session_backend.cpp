// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/session/session_backend.hpp"
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include "core/duration.hpp"
#include "zookeeper/node_record.hpp"

namespace dlock::zookeeper {

using namespace std::chrono_literals;

namespace {

constexpr Duration looking_timeout = 10s;  // of a session that holds nothing
constexpr unsigned most_proofs = 4;        // in a row, of one grant

}  // namespace

SessionBackend::~SessionBackend() {
  for (Line& l : lines_) {
    const auto on = [&](const Place& p) { return p.line == &l && lives(p) && !p.node.empty(); };
    const bool holds = std::any_of(places_.begin(), places_.end(), [&](const Place& p) {
      return on(p) && p.granted && !p.given_up;
    });
    l.session->keep(holds || l.taken_up);
    for (const Place& p : places_)  // the session lives on: waiters in it must not
      if (holds && on(p) && !p.granted && l.session->state() == Session::State::connected)
        l.session->remove(p.node);
  }
}

Counters SessionBackend::counters() const noexcept {
  Counters c{closed_requests_, wakeups};
  for (const Line& l : lines_) c.requests += l.session->requests;
  return c;
}

// ---- sessions ----------------------------------------------------------------------------------

Line& SessionBackend::line(const std::optional<Owner>& owner) {
  const auto at =
      std::find_if(lines_.begin(), lines_.end(), [&](const Line& l) { return l.owner == owner; });
  return at != lines_.end() ? *at : lines_.emplace_back(Line{owner, nullptr});
}

void SessionBackend::close(Line& l) {
  closed_requests_ += l.session ? l.session->requests : 0;
  std::erase_if(places_, [&](const Place& p) { return p.line == &l; });
  std::erase_if(lines_, [&](const Line& other) { return &other == &l; });
}

Result<Line*> SessionBackend::line_for(const Request& r, Deadline until, int interrupt_fd) {
  Line& l = line(r.attached ? std::nullopt : std::optional{r.owner});
  const Duration asked = whole_ms(r.ttl);
  if (l.session && l.session->state() == Session::State::expired) {
    closed_requests_ += l.session->requests;
    l.session.reset();
  }
  const bool fresh = !l.session;
  if (fresh) l.session = std::make_unique<Session>(options_, asked);
  // Places of another ttl share the longer one.
  const bool shared = std::any_of(places_.begin(), places_.end(), [&](const Place& p) {
    return p.line == &l && lives(p) && !p.node.empty();
  });
  if (!fresh && (shared ? l.session->asked() < asked : l.session->asked() != asked) &&
      l.session->id() != 0)
    if (auto ok = retime(l, asked); !ok) return fail(std::move(ok.error()));
  if (auto ok = l.session->connect(until, interrupt_fd); !ok) {
    if (ok.error().code == Errc::denied) l.session.reset();
    if (!l.session) std::erase_if(lines_, [&](const Line& other) { return &other == &l; });
    return fail(std::move(ok.error()));
  }
  if (l.session->state() == Session::State::expired) return line_for(r, until, interrupt_fd);
  if (const Duration given = l.session->timeout(); given != l.session->asked()) {
    const bool least = given > l.session->asked();
    if (!shared) close(l);
    return fail(Errc::usage,
                fmt::format("--ttl {}: sessions of {} last {} {} (its {}SessionTimeout)",
                            format_duration(asked), options_.where, least ? "at least" : "at most",
                            least ? format_duration_up(given) : format_duration(given),
                            least ? "min" : "max"));
  }
  return &l;
}

Result<Session*> SessionBackend::looker() {
  const auto at = std::find_if(lines_.begin(), lines_.end(), [](const Line& l) {
    return !l.owner && l.session && l.session->state() != Session::State::expired;
  });
  Line& l = at != lines_.end() ? *at : line(std::nullopt);
  for (int tries = 0; tries < 2; ++tries) {
    if (!l.session) l.session = std::make_unique<Session>(options_, looking_timeout);
    if (auto ok = l.session->connect(later(Clock::now(), options_.connect_timeout)); !ok) {
      auto error = std::move(ok.error());
      if (error.code == Errc::denied) close(l);
      return fail(std::move(error));
    }
    if (l.session->state() == Session::State::connected) break;
    closed_requests_ += l.session->requests;
    l.session.reset();
  }
  if (!l.session)
    return fail(Errc::unavailable, fmt::format("{}: no session available", options_.where));
  return l.session.get();
}

// The same session with another timeout: it is resumed, as by another process. Watches and open
// calls end.
Result<void> SessionBackend::retime(Line& l, Duration ttl) {
  const Ticket ticket = l.session->ticket();
  if (ticket.id == 0) return {};
  closed_requests_ += l.session->requests;
  const std::uint64_t connections = l.session->connections();
  l.session->keep(true);
  l.session.reset();
  l.session = std::make_unique<Session>(options_, whole_ms(ttl), ticket, connections);
  l.session->keep(l.taken_up);
  for (Place& p : places_)
    if (p.line == &l) p.watch = 0;
  return l.session->connect(op_deadline());
}

// ---- what holds --------------------------------------------------------------------------------

Result<Renewal> SessionBackend::renew(const Lease& lease, Duration ttl) {
  const Deadline until = op_deadline();
  auto found = ours(lease, ttl, until);
  if (!found) return fail(std::move(found.error()));
  Place* p = *found;
  if (!p || !p->granted) return Lost{"the session that held it is over, or its node was removed"};
  Line& l = *p->line;
  if (l.session->asked() != whole_ms(ttl)) {
    if (auto ok = retime(l, ttl); !ok) return fail(std::move(ok.error()));
  }
  for (;;) {
    Session& s = *l.session;
    if (auto ok = s.connect(until); !ok) return fail(std::move(ok.error()));
    if (!lives(*p)) {
      forget(*p);
      return Lost{"the session that held it has expired"};
    }
    if (s.timeout() < s.asked())
      return fail(Errc::usage,
                  fmt::format("--ttl {}: sessions of {} last at most {} (its maxSessionTimeout)",
                              format_duration(ttl), options_.where, format_duration(s.timeout())));
    const Session::Call proof = s.multi({{Op::Kind::check, p->node, {}, p->version}});
    const Session::Call look = watch(s, *p);
    if (auto ok = done(s, "renew", {&proof, &look}, until); !ok) return fail(std::move(ok.error()));
    const Reply &proved = proof.reply(), &seen = look.reply();
    if (unknown(proved.rc) || unknown(seen.rc)) continue;  // connect() ensures that this ends
    const bool replaced = seen.rc == ZOK && static_cast<FencingToken>(seen.stat.czxid) != p->token;
    if (proved.rc == ZNONODE || seen.rc == ZNONODE || replaced) {
      forget(*p);
      return Lost{"its node was removed"};
    }
    if (seen.rc != ZOK) return fail(server_error(options_, "renew", seen.rc));
    if (proved.rc == ZBADVERSION) {  // another client wrote to it: a revocation
      p->version = seen.stat.version;
      continue;
    }
    if (proved.rc != ZOK) return fail(server_error(options_, "renew", proved.rc));
    // A write proves what came before the one before it (proof.hpp): so a second one.
    const Session::Call again = s.multi({{Op::Kind::check, p->node, {}, p->version}});
    if (auto ok = done(s, "renew", {&again}, until); !ok) return fail(std::move(ok.error()));
    if (const int rc = again.reply().rc; rc != ZOK) {
      if (unknown(rc) || rc == ZBADVERSION || rc == ZNONODE) continue;
      return fail(server_error(options_, "renew", rc));
    }
    p->ttl = ttl;
    say_ttl(s, *p, seen.text, until);
    return Kept{lease_of(*p, proved.sent), asks_to_stop(seen.text, p->token, names_recur())};
  }
}

Session::Call SessionBackend::watch(Session& s, Place& p) {
  if (p.watch == 0 || s.fired(p.watch)) {
    s.forget(p.watch);
    p.watch = s.new_watch();
  }
  return s.get(p.node, p.watch);
}

void SessionBackend::unwatch(Session& s, Place& p) { s.forget(std::exchange(p.watch, 0)); }

Result<Renewal> SessionBackend::prove(Place& p, Deadline sent) {
  const Duration wanted = proven_of(p.ttl, options_.tick);
  for (unsigned tries = 0;; ++tries) {
    const Lease lease = lease_of(p, sent);
    if (p.watch != 0 && lease.deadline >= later(sent, wanted)) return Kept{lease};
    if (tries == most_proofs)
      return fail(Errc::timed_out,
                  fmt::format("acquire at {}: its answers come too late to prove a ttl of {}",
                              options_.where, format_duration(p.ttl)));
    if (tries > 1) p.line->session->drop();  // when resumed, it is known to live from then on
    sent = Clock::now();
    auto answer = renew(lease, p.ttl);
    if (!answer || !std::holds_alternative<Kept>(*answer)) return answer;
  }
}

Result<Renewal> SessionBackend::detach(const Lease& lease, Duration ttl) {
  auto answer = renew(lease, ttl);
  if (!answer || !std::holds_alternative<Kept>(*answer)) return answer;
  Place& p = *find_place(lease.key, lease.owner);
  p.attached = false;
  std::get<Kept>(*answer).lease.ticket = p.line->session->ticket().text();
  return answer;
}

Result<Released> SessionBackend::release(const Lease& lease) {
  const Deadline until = op_deadline();
  auto found = ours(lease, looking_timeout, until);
  if (!found) return fail(std::move(found.error()));
  Place* p = *found;
  if (!p) return Released::was_not_held;
  p->given_up = true;
  Line& l = *p->line;
  const auto over = [&](Released r) {
    const bool detached = l.owner.has_value();
    forget(*p);
    const bool empty = std::none_of(places_.begin(), places_.end(),
                                    [&](const Place& other) { return other.line == &l; });
    if (detached && empty && !l.taken_up) close(l);
    return r;
  };
  for (;;) {
    if (auto ok = l.session->connect(until); !ok) return fail(std::move(ok.error()));
    if (!lives(*p)) return over(p->releasing ? Released::yes : Released::was_not_held);
    Session& s = *l.session;
    if (names_recur()) {
      // Remaining race: 1. we look, and it is ours; 2. an operator removes it by force; 3. another
      // creates its own; 4. our deletion hits that.
      const Session::Call look = s.exists(p->node);
      if (auto ok = done(s, "release", {&look}, until); !ok) return fail(std::move(ok.error()));
      const Reply& seen = look.reply();
      if (unknown(seen.rc)) continue;
      if (seen.rc == ZNONODE ||
          (seen.rc == ZOK && static_cast<FencingToken>(seen.stat.czxid) != p->token))
        return over(p->releasing ? Released::yes : Released::was_not_held);
    }
    auto ops = release_ops(*p);
    Session::Call call = ops.size() == 1 ? s.remove(p->node) : s.multi(std::move(ops));
    if (auto ok = done(s, "release", {&call}, until); !ok) {
      p->releasing = true;
      return fail(std::move(ok.error()));
    }
    int rc = call.reply().rc;
    // a node that belongs to it has changed: delete the main node alone
    if (rc != ZOK && !unknown(rc)) {
      call = s.remove(p->node);
      const Session::Call mark = s.remove(p->mark.empty() ? p->node : p->mark);
      if (auto ok = done(s, "release", {&call, &mark}, until); !ok) {
        p->releasing = true;
        return fail(std::move(ok.error()));
      }
      rc = call.reply().rc;
    }
    if (rc == ZOK) return over(Released::yes);
    if (rc == ZNONODE) return over(p->releasing ? Released::yes : Released::was_not_held);
    if (!unknown(rc)) return fail(server_error(options_, "release", rc));
    p->releasing = true;
  }
}

Result<Validity> SessionBackend::check(const Key& key, FencingToken token) {
  const auto held = holders(key);
  if (!held) return fail(held.error());
  const bool found = std::any_of(held->begin(), held->end(), [&](const HolderNode& h) {
    return static_cast<FencingToken>(h.stat.czxid) == token;
  });
  return found ? Validity::valid : Validity::stale;
}

Result<Released> SessionBackend::revoke(const Key& key) {
  const auto held = holders(key);
  if (!held) return fail(held.error());
  auto s = looker();
  if (!s) return fail(std::move(s.error()));
  Released answer = Released::was_not_held;
  for (const HolderNode& h : *held) {
    const Session::Call call = (*s)->set(
        h.path, revoke_text(static_cast<FencingToken>(h.stat.czxid), names_recur(), h.data));
    if (auto ok = done(**s, "revoke", {&call}, op_deadline()); !ok)
      return fail(std::move(ok.error()));
    if (call.reply().rc == ZOK) answer = Released::yes;
    else if (call.reply().rc != ZNONODE)
      return fail(server_error(options_, "revoke", call.reply().rc));
  }
  return answer;
}

// No `held`: the times of a node are that of its creation (the owner joined the queue) and of its
// last data (a revocation, another ttl), by the clock of the leader at that time. Nothing records
// the time of the grant, and no reply has the servers' time now.
HolderView SessionBackend::view(const HolderNode& h) {
  HolderView v;
  v.mode = h.mode;
  v.token = static_cast<FencingToken>(h.stat.czxid);
  if (const auto r = NodeRecord::parse(h.data)) {
    v.id = r->id;
    v.slot = r->slot.value_or(0);
    v.remaining = r->ttl;  // after its last heartbeat, which only the leader knows
    v.who = r->who;
  }
  return v;
}

}  // namespace dlock::zookeeper
