// SPDX-License-Identifier: Apache-2.0
// The nodes that a Backend has in queues.
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include "zookeeper/node_record.hpp"
#include "zookeeper/session/session_backend.hpp"

namespace dlock::zookeeper {

Place* SessionBackend::find_place(const Key& key, const Owner& owner) {
  const auto at = std::find_if(places_.begin(), places_.end(),
                               [&](const Place& p) { return p.key == key && p.owner == owner; });
  return at == places_.end() ? nullptr : &*at;
}

Place& SessionBackend::place_for(const Request& r) {
  if (Place* p = find_place(r.key, r.owner)) return *p;
  Place p{r.key, r.owner};
  p.mode = r.mode;
  p.ttl = r.ttl;
  p.lock_delay = r.lock_delay;
  p.attached = r.attached;
  return places_.emplace_back(std::move(p));
}

bool SessionBackend::lives(const Place& p) const {
  return p.line && p.line->session && p.line->session->id() == p.session &&
         p.line->session->state() != Session::State::expired;
}

void SessionBackend::forget(Place& p) {
  if (lives(p)) p.line->session->forget(p.watch);
  std::erase_if(places_, [&](const Place& other) { return &other == &p; });
}

Lease SessionBackend::lease_of(const Place& p, Deadline sent) const {
  Lease lease{p.key, p.owner, p.mode, p.token, p.slot};
  lease.deadline =
      std::min<Deadline>(p.line->session->proof().until() - p.lock_delay, lease_end(sent, p.ttl));
  if (!p.attached) lease.ticket = ticket_of(p).text();
  return lease;
}

Ticket SessionBackend::ticket_of(const Place& p) {
  Ticket t = p.line->session->ticket();
  t.timeout = p.line->timeout();
  t.lock_delay = p.line->lock_delay;
  return t;
}

Result<void> SessionBackend::done(Session& s, std::string_view what,
                                  std::initializer_list<const Session::Call*> calls,
                                  Deadline until) {
  if (!s.finish(calls, until))
    return fail(Errc::timed_out, fmt::format("{} at {}: no answer in time", what, options_.where));
  const bool denied = std::any_of(calls.begin(), calls.end(), [](const Session::Call* c) {
    return c->reply().rc == ZNOAUTH || c->reply().rc == ZAUTHFAILED;
  });
  if (!denied || !read_auth_again(options_)) return {};
  for (Line& l : lines_)
    if (l.session) l.session->log_in();
  // of several requests, others may have been carried out
  return fail(Errc::timed_out,
              fmt::format("{} at {}: denied, and {} has another credential now, to be tried next",
                          what, options_.where, options_.auth_file));
}

Result<int> SessionBackend::make_directory(Session& s, const std::string& path,
                                           const std::string& data, Deadline until,
                                           bool container) {
  std::vector<Session::Call> above;
  for (std::size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1))
    above.push_back(s.create(path.substr(0, slash), "", ZOO_PERSISTENT));
  Session::Call last = s.create(path, data, container ? ZOO_CONTAINER : ZOO_PERSISTENT);
  TRY_VOID(done(s, "make the directory", {&last}, until));
  int rc = last.reply().rc;
  // a server before 3.5.1
  if (container && rc == ZUNIMPLEMENTED) return make_directory(s, path, data, until, false);
  if (rc == ZOK || rc == ZNODEEXISTS) return rc;
  for (const Session::Call& c : above)  // the first error says more
    if (rc == ZNONODE && c.done() && c.reply().rc != ZOK && c.reply().rc != ZNODEEXISTS)
      rc = c.reply().rc;
  if (rc == ZNONODE) return rc;  // the one above was deleted just now
  Error e = server_error(options_, "make the directory " + path, rc);
  if (e.code == Errc::protocol) e.code = Errc::cannot_create;
  return fail(std::move(e));
}

Result<bool> SessionBackend::settle(const Key& key) {
  for (bool any = false;; any = true) {
    const auto at = std::find_if(places_.begin(), places_.end(),
                                 [&](const Place& p) { return p.given_up && p.key == key; });
    if (at == places_.end()) return any;
    if (at->granted) {
      const Lease owed{at->key, at->owner};
      TRY_VOID(release(owed, std::nullopt));
    } else {
      TRY_VOID(leave(*at));
      forget(*at);
    }
  }
}

void SessionBackend::begin_anew(Place& p, Request& r) {
  if (r.attached) p.owner = r.owner = Owner::random();
  p.node.clear();
  p.unsure = p.granted = p.slotted = p.given_up = p.releasing = false;
  p.watch = 0;
}

Result<void> SessionBackend::leave(Place& p) {
  const Deadline until = op_deadline();
  p.given_up = true;
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

// The place of a lease: one of this Backend's, or (by its ticket) one that another process took.
// Null: not held.
Result<Place*> SessionBackend::ours(const Lease& lease, Duration ttl, Deadline until) {
  if (Place* p = find_place(lease.key, lease.owner)) {
    if (!lives(*p) || (p->node.empty() && !p->releasing)) {
      forget(*p);
      return nullptr;
    }
    return p;
  }
  const auto ticket = Ticket::parse(lease.ticket);
  if (!ticket) return nullptr;
  const Duration timeout = ticket->timeout > Duration{} ? ticket->timeout : whole_ms(ttl);
  Line& l = line(lease.owner, timeout - ticket->lock_delay, ticket->lock_delay);
  if (l.session && l.session->state() == Session::State::expired) {
    close(l);
    return nullptr;
  }
  if (!l.session) {
    l.session = std::make_unique<Session>(options_, timeout, ticket, 0, l.lock_delay);
    l.taken_up = true;
  }
  Place p{lease.key, lease.owner};
  p.attached = false;
  p.ttl = l.ttl;
  p.lock_delay = l.lock_delay;
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

// For display: the record has the timeout of the session. If the reply is lost, the next renewal
// finds another version and reads the node again.
void SessionBackend::say_timeout(Session& s, Place& p, std::string_view data, Duration timeout,
                                 Deadline until) {
  if (data.starts_with(revoke_word)) return;  // the request stays
  auto record = NodeRecord::parse(data);
  if (!record || record->timeout == timeout) return;
  record->timeout = timeout;
  const Session::Call call = s.multi({{Op::Kind::set, p.node, record->text(), p.version}});
  if (s.finish({&call}, until) && call.reply().rc == ZOK) ++p.version;
}

}  // namespace dlock::zookeeper
