// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/base.hpp"
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include "core/duration.hpp"
#include "zookeeper/record.hpp"

namespace dlock::zookeeper {

using namespace std::chrono_literals;

namespace {

constexpr Duration looking_timeout = 10s;  // of a session that holds nothing
constexpr int at_any_version = -1;

Duration whole_ms(Duration d) { return std::chrono::ceil<std::chrono::milliseconds>(d); }

}  // namespace

Base::~Base() {
  for (Line& l : lines_) {
    const auto on = [&](const Place& p) { return p.line == &l && lives(p) && !p.node.empty(); };
    const bool holds = std::any_of(places_.begin(), places_.end(), [&](const Place& p) { return on(p) && p.granted; });
    l.session->keep(holds || l.taken_up);
    for (const Place& p : places_)  // the session lives on: whoever waited in it must not
      if (holds && on(p) && !p.granted && l.session->state() == Session::State::connected) l.session->remove(p.node);
  }
}

Counters Base::counters() const noexcept {
  Counters c{closed_requests_, wakeups};
  for (const Line& l : lines_) c.requests += l.session->requests;
  return c;
}

// ---- sessions ------------------------------------------------------------------------------------------------------------

Line& Base::line(const std::optional<Owner>& owner) {
  const auto at = std::find_if(lines_.begin(), lines_.end(), [&](const Line& l) { return l.owner == owner; });
  return at != lines_.end() ? *at : lines_.emplace_back(Line{owner, nullptr});
}

void Base::close(Line& l) {
  closed_requests_ += l.session ? l.session->requests : 0;
  std::erase_if(places_, [&](const Place& p) { return p.line == &l; });
  std::erase_if(lines_, [&](const Line& other) { return &other == &l; });
}

Result<Line*> Base::line_for(const Request& r, Deadline until, int interrupt_fd) {
  Line& l = line(r.attached ? std::nullopt : std::optional{r.owner});
  const Duration asked = whole_ms(r.ttl);
  if (l.session && l.session->state() == Session::State::expired) {
    closed_requests_ += l.session->requests;
    l.session.reset();
  }
  const bool fresh = !l.session;
  if (fresh) l.session = std::make_unique<Session>(options_, asked);
  // Places of another ttl share the longer one.
  const bool shared =
      std::any_of(places_.begin(), places_.end(), [&](const Place& p) { return p.line == &l && lives(p) && !p.node.empty(); });
  if (!fresh && (shared ? l.session->asked() < asked : l.session->asked() != asked) && l.session->id() != 0)
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
                fmt::format("--ttl {}: sessions of {} last {} {} (its {}SessionTimeout)", format_duration(asked), options_.where,
                            least ? "at least" : "at most", format_duration(given), least ? "min" : "max"));
  }
  return &l;
}

Result<Session*> Base::looker() {
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
  if (!l.session) return fail(Errc::unavailable, fmt::format("{}: no session to be had", options_.where));
  return l.session.get();
}

// The same session with another timeout: it is taken up again, as by another process. Watches and open calls end.
Result<void> Base::retime(Line& l, Duration ttl) {
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

// ---- places --------------------------------------------------------------------------------------------------------------

Place* Base::find_place(const Key& key, const Owner& owner) {
  const auto at = std::find_if(places_.begin(), places_.end(), [&](const Place& p) { return p.key == key && p.owner == owner; });
  return at == places_.end() ? nullptr : &*at;
}

Place& Base::place_for(const Request& r) {
  if (Place* p = find_place(r.key, r.owner)) return *p;
  Place p{r.key, r.owner};
  p.mode = r.mode;
  p.ttl = r.ttl;
  p.attached = r.attached;
  return places_.emplace_back(std::move(p));
}

bool Base::lives(const Place& p) const {
  return p.line && p.line->session && p.line->session->id() == p.session && p.line->session->state() != Session::State::expired;
}

void Base::forget(Place& p) {
  std::erase_if(places_, [&](const Place& other) { return &other == &p; });
}

Lease Base::lease_of(const Place& p, Deadline sent) const {
  Lease lease{p.key, p.owner, p.mode, p.token, p.slot};
  lease.deadline = std::min(p.line->session->proof().until(), lease_end(sent, p.ttl));
  if (!p.attached) lease.ticket = p.line->session->ticket().text();
  return lease;
}

Result<void> Base::done(Session& s, std::string_view what, std::initializer_list<const Session::Call*> calls, Deadline until) {
  if (s.finish(calls, until)) return {};
  return fail(Errc::timed_out, fmt::format("{} at {}: no answer in time", what, options_.where));
}

Result<int> Base::make_directory(Session& s, const std::string& path, const std::string& data, Deadline until, bool container) {
  std::vector<Session::Call> above;
  for (std::size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1))
    above.push_back(s.create(path.substr(0, slash), "", ZOO_PERSISTENT));
  Session::Call last = s.create(path, data, container ? ZOO_CONTAINER : ZOO_PERSISTENT);
  if (auto ok = done(s, "make the directory", {&last}, until); !ok) return fail(std::move(ok.error()));
  int rc = last.reply().rc;
  if (container && rc == ZUNIMPLEMENTED) return make_directory(s, path, data, until, false);  // a server before 3.5.1
  if (rc == ZOK || rc == ZNODEEXISTS) return rc;
  for (const Session::Call& c : above)  // the first thing that went wrong says more
    if (rc == ZNONODE && c.done() && c.reply().rc != ZOK && c.reply().rc != ZNODEEXISTS) rc = c.reply().rc;
  if (rc == ZNONODE) return rc;  // the one above was deleted just now
  Error e = server_error(options_, "make the directory " + path, rc);
  if (e.code == Errc::protocol) e.code = Errc::cannot_create;
  return fail(std::move(e));
}

Result<void> Base::leave(Place& p) {
  const Deadline until = op_deadline();
  while (lives(p) && (!p.node.empty() || p.unsure)) {
    Session& s = *p.line->session;
    if (auto ok = s.connect(until); !ok) return ok;
    if (!lives(p)) break;
    if (p.node.empty()) {
      const auto found = find_node(s, p, until);
      if (!found && found.error().code == Errc::timed_out && Clock::now() < until) continue;
      if (!found) return fail(found.error());
      p.unsure = false;
      if (!*found) break;
    }
    const Session::Call call = s.remove(p.node);
    if (auto ok = done(s, "leave the queue", {&call}, until); !ok) return ok;
    const int rc = call.reply().rc;
    if (unknown(rc)) continue;
    if (rc != ZOK && rc != ZNONODE) return fail(server_error(options_, "leave the queue", rc));
    p.node.clear();
  }
  p.node.clear();
  p.unsure = p.granted = p.slotted = false;
  return {};
}

// The place of a lease: one of this Backend's, or (by its ticket) what another process took. Null: not held.
Result<Place*> Base::ours(const Lease& lease, Duration ttl, Deadline until) {
  if (Place* p = find_place(lease.key, lease.owner)) {
    if (!lives(*p) || (p->node.empty() && !p->releasing)) {
      forget(*p);
      return nullptr;
    }
    return p;
  }
  const auto ticket = Ticket::parse(lease.ticket);
  if (!ticket) return nullptr;
  Line& l = line(lease.owner);
  if (l.session && l.session->state() == Session::State::expired) {
    close(l);
    return nullptr;
  }
  if (!l.session) {
    l.session = std::make_unique<Session>(options_, whole_ms(ttl), ticket);
    l.session->keep(l.taken_up = true);
  }
  Place p{lease.key, lease.owner};
  p.attached = false;
  p.ttl = ttl;
  for (;;) {
    auto connected = l.session->connect(until);
    if (!connected) {
      Error e = std::move(connected.error());
      close(l);
      return fail(std::move(e));
    }
    if (l.session->state() == Session::State::expired) {
      close(l);
      return nullptr;
    }
    p.line = &l;
    p.session = l.session->id();
    auto found = find_node(*l.session, p, until);
    if (!found && found.error().code == Errc::timed_out && Clock::now() < until) continue;
    if (!found) {
      Error e = std::move(found.error());
      close(l);
      return fail(std::move(e));
    }
    if (!*found) {
      close(l);
      return nullptr;
    }
    p.granted = true;
    return &places_.emplace_back(std::move(p));
  }
}

// For people: the record says how long a lease lasts. Should the answer get lost, the next renewal finds another version and reads the node again.
void Base::say_ttl(Session& s, Place& p, std::string_view data, Deadline until) {
  auto record = Record::parse(data);
  if (!record || record->ttl == p.ttl) return;
  record->ttl = p.ttl;
  const Session::Call call = s.multi({{Op::Kind::set, p.node, record->text(), p.version}});
  if (s.finish({&call}, until) && call.reply().rc == ZOK) ++p.version;
}

// ---- what holds ----------------------------------------------------------------------------------------------------------

Result<Renewal> Base::renew(const Lease& lease, Duration ttl) {
  const Deadline until = op_deadline();
  auto found = ours(lease, ttl, until);
  if (!found) return fail(std::move(found.error()));
  Place* p = *found;
  if (!p || !p->granted) return Lost{"the session that held it is over, or somebody removed its node"};
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
      return fail(Errc::usage, fmt::format("--ttl {}: sessions of {} last at most {} (its maxSessionTimeout)",
                                           format_duration(ttl), options_.where, format_duration(s.timeout())));
    if (p->watch == 0 || s.fired(p->watch)) {
      s.forget(p->watch);
      p->watch = s.new_watch();
    }
    const Session::Call proof = s.multi({{Op::Kind::check, p->node, {}, p->version}});
    const Session::Call look = s.get(p->node, p->watch);
    if (auto ok = done(s, "renew", {&proof, &look}, until); !ok) return fail(std::move(ok.error()));
    const Reply &proved = proof.reply(), &seen = look.reply();
    if (unknown(proved.rc) || unknown(seen.rc)) continue;  // connect() sees to it that this ends
    const bool replaced = seen.rc == ZOK && static_cast<FencingToken>(seen.stat.czxid) != p->token;
    if (proved.rc == ZNONODE || seen.rc == ZNONODE || replaced) {
      forget(*p);
      return Lost{"somebody removed its node"};
    }
    if (seen.rc != ZOK) return fail(server_error(options_, "renew", seen.rc));
    if (proved.rc == ZBADVERSION) {  // somebody wrote to it: a revocation
      p->version = seen.stat.version;
      continue;
    }
    if (proved.rc != ZOK) return fail(server_error(options_, "renew", proved.rc));
    p->ttl = ttl;
    say_ttl(s, *p, seen.text, until);
    return Kept{lease_of(*p, proved.sent), seen.text == revoke_word};
  }
}

Result<Renewal> Base::detach(const Lease& lease, Duration ttl) {
  auto answer = renew(lease, ttl);
  if (!answer || !std::holds_alternative<Kept>(*answer)) return answer;
  Place& p = *find_place(lease.key, lease.owner);
  p.attached = false;
  std::get<Kept>(*answer).lease.ticket = p.line->session->ticket().text();
  return answer;
}

Result<Released> Base::release(const Lease& lease) {
  const Deadline until = op_deadline();
  auto found = ours(lease, looking_timeout, until);
  if (!found) return fail(std::move(found.error()));
  Place* p = *found;
  if (!p) return Released::was_not_held;
  Line& l = *p->line;
  const auto over = [&](Released r) {
    const bool detached = l.owner.has_value();
    forget(*p);
    const bool empty = std::none_of(places_.begin(), places_.end(), [&](const Place& other) { return other.line == &l; });
    if (detached && empty && !l.taken_up) close(l);
    return r;
  };
  for (;;) {
    if (auto ok = l.session->connect(until); !ok) return fail(std::move(ok.error()));
    if (!lives(*p)) return over(p->releasing ? Released::yes : Released::was_not_held);
    Session& s = *l.session;
    if (names_recur()) {
      // Remaining race: 1. we look, and it is ours; 2. an operator removes it by force; 3. another creates its own; 4. our deletion hits that.
      const Session::Call look = s.exists(p->node);
      if (auto ok = done(s, "release", {&look}, until); !ok) return fail(std::move(ok.error()));
      const Reply& seen = look.reply();
      if (unknown(seen.rc)) continue;
      if (seen.rc == ZNONODE || (seen.rc == ZOK && static_cast<FencingToken>(seen.stat.czxid) != p->token))
        return over(p->releasing ? Released::yes : Released::was_not_held);
    }
    auto ops = release_ops(*p);
    Session::Call call = ops.size() == 1 ? s.remove(p->node) : s.multi(std::move(ops));
    if (auto ok = done(s, "release", {&call}, until); !ok) {
      p->releasing = true;
      return fail(std::move(ok.error()));
    }
    int rc = call.reply().rc;
    if (rc != ZOK && !unknown(rc)) {  // what belongs to it is not as it was: the node alone, then
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

Result<Validity> Base::check(const Key& key, FencingToken token) {
  const auto held = holders(key);
  if (!held) return fail(held.error());
  const bool found =
      std::any_of(held->begin(), held->end(), [&](const Held& h) { return static_cast<FencingToken>(h.stat.czxid) == token; });
  return found ? Validity::valid : Validity::stale;
}

Result<Released> Base::revoke(const Key& key) {
  const auto held = holders(key);
  if (!held) return fail(held.error());
  auto s = looker();
  if (!s) return fail(std::move(s.error()));
  Released answer = Released::was_not_held;
  for (const Held& h : *held) {
    const Session::Call call = (*s)->set(h.path, std::string{revoke_word});
    if (auto ok = done(**s, "revoke", {&call}, op_deadline()); !ok) return fail(std::move(ok.error()));
    if (call.reply().rc == ZOK) answer = Released::yes;
    else if (call.reply().rc != ZNONODE) return fail(server_error(options_, "revoke", call.reply().rc));
  }
  return answer;
}

// No `held`: the times of a node are that of its making (the owner came to the queue) and of its last data (a revocation, another ttl), by the clock of whoever
// led then. Nothing says when the turn came, and no answer carries the servers' time now.
HolderView Base::view(const Held& h) {
  HolderView v;
  v.mode = h.mode;
  v.token = static_cast<FencingToken>(h.stat.czxid);
  if (const auto r = Record::parse(h.data)) {
    v.id = r->id;
    v.slot = r->slot.value_or(0);
    v.remaining = r->ttl;  // after its last sign of life, which nobody but the leader knows
    v.who = r->who;
  }
  return v;
}

}  // namespace dlock::zookeeper
