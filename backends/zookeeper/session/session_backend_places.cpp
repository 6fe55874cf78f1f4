// SPDX-License-Identifier: Apache-2.0
// The places of a Backend in queues.
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include "common/exchange.hpp"
#include "zookeeper/records.hpp"
#include "zookeeper/session/session_backend.hpp"

namespace dlock::zookeeper {

QueueNode* SessionBackend::find_place(const Key& key, const Owner& owner) {
  const auto at = std::ranges::find_if(
      places_, [&](const QueueNode& p) { return p.key == key && p.owner == owner; });
  return at == places_.end() ? nullptr : &*at;
}

QueueNode& SessionBackend::place_for(const Request& r) {
  if (QueueNode* p = find_place(r.key, r.owner)) return *p;
  return places_.emplace_back(QueueNode{.key = r.key,
                                        .owner = r.owner,
                                        .mode = r.mode,
                                        .ttl = r.ttl,
                                        .lock_delay = r.lock_delay,
                                        .attached = r.attached});
}

bool SessionBackend::lives(const QueueNode& p) const {
  return p.line && p.line->session && p.line->session->id() == p.session &&
         p.line->session->state() != Session::State::expired;
}

void SessionBackend::forget(QueueNode& p) {
  if (lives(p)) p.line->session->forget(p.watch);
  std::erase_if(places_, [&](const QueueNode& other) { return &other == &p; });
}

Lease SessionBackend::lease_of(const QueueNode& p, Deadline sent) const {
  Lease lease{p.key, p.owner, p.mode, p.token, p.slot.value_or(0)};
  lease.deadline =
      std::min<Deadline>(p.line->session->proof().until() - p.lock_delay, lease_end(sent, p.ttl));
  if (!p.attached) lease.ticket = ticket_of(p).text();
  return lease;
}

Ticket SessionBackend::ticket_of(const QueueNode& p) {
  Ticket t = p.line->session->ticket();
  t.timeout = p.line->timeout();
  t.lock_delay = p.line->lock_delay;
  return t;
}

Result<void> SessionBackend::done(Session& s, std::string_view what,
                                  std::initializer_list<const Session::Call*> calls,
                                  Deadline until) {
  if (!s.finish(calls, until)) return fail(no_answer(what, options_.where));
  const bool denied = std::ranges::any_of(calls, [](const Session::Call* c) {
    return c->reply().rc == ZNOAUTH || c->reply().rc == ZAUTHFAILED;
  });
  if (!denied || !read_auth_again(options_)) return {};
  for (SessionSlot& l : lines_)
    if (l.session) l.session->log_in();
  // some of several requests may have been carried out
  return fail(Errc::timed_out,
              "{} at {}: denied, and {} has another credential now, to be tried next", what,
              options_.where, options_.auth_file);
}

Result<Reply> SessionBackend::answer(Session& s, std::string_view what, Session::Call call,
                                     Deadline until, std::initializer_list<int> also) {
  TRY_VOID(done(s, what, {&call}, until));
  const Reply& r = call.reply();
  if (r.rc != ZOK && std::ranges::find(also, r.rc) == also.end())
    return fail(server_error(options_, what, r.rc));
  return r;
}

Result<void> SessionBackend::make_directory(Session& s, const std::string& path,
                                            const std::string& data, Deadline until,
                                            bool container) {
  std::vector<Session::Call> above;
  for (std::size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1))
    above.push_back(s.create(path.substr(0, slash), "", ZOO_PERSISTENT));
  Session::Call last = s.create(path, data, container ? ZOO_CONTAINER : ZOO_PERSISTENT);
  TRY_VOID(done(s, "make the directory", {&last}, until));
  int rc = last.reply().rc;
  // A server older than 3.5.1 has no containers.
  if (container && rc == ZUNIMPLEMENTED) return make_directory(s, path, data, until, false);
  if (rc == ZOK || rc == ZNODEEXISTS) return {};
  for (const Session::Call& c : above)  // the first error says most
    if (rc == ZNONODE && c.done() && c.reply().rc != ZOK && c.reply().rc != ZNODEEXISTS)
      rc = c.reply().rc;
  if (rc == ZNONODE) return {};  // its parent has just been deleted: the next try creates it
  Error e = server_error(options_, "make the directory " + path, rc);
  if (e.code == Errc::protocol) e.code = Errc::cannot_create;
  return fail(std::move(e));
}

Result<bool> SessionBackend::settle(const Key& key) {
  for (bool any = false;; any = true) {
    const auto at = std::ranges::find_if(
        places_, [&](const QueueNode& p) { return p.given_up && p.key == key; });
    if (at == places_.end()) return any;
    if (at->granted()) {
      const Lease owed{at->key, at->owner};
      TRY_VOID(release(owed, std::nullopt));
    } else {
      TRY_VOID(leave(*at));
      forget(*at);
    }
  }
}

void SessionBackend::renew_owner(Request& r) {
  if (QueueNode* p = find_place(r.key, r.owner)) forget(*p);
  if (r.attached) r.owner = Owner::random();
}

Result<void> SessionBackend::leave(QueueNode& p) {
  const Deadline until = op_deadline();
  p.given_up = true;
  while (lives(p) && p.node_state != NodeState::none) {
    Session& s = *p.line->session;
    TRY_VOID(s.connect(until));
    if (!lives(p)) break;
    if (p.node_state == NodeState::unclear) {
      const auto found = find_node(s, p, until);
      if (!found && found.error().code == Errc::timed_out && Clock::now() < until) continue;
      if (!found) return fail(found.error());
      if (!*found) break;
    }
    const Session::Call call = s.remove(p.node);
    TRY_VOID(done(s, "leave the queue", {&call}, until));
    const int rc = call.reply().rc;
    if (unknown(rc)) continue;
    if (rc != ZOK && rc != ZNONODE) return fail(server_error(options_, "leave the queue", rc));
    break;
  }
  p.no_node(NodeState::none);
  return {};
}

// Returns the place of a lease. If this Backend has no such place, finds the node of another
// process by the lease's ticket. Null: the lease is not held.
Result<QueueNode*> SessionBackend::ours(const Lease& lease, Deadline until) {
  if (QueueNode* p = find_place(lease.key, lease.owner)) {
    if (!lives(*p) || p->node.empty()) {
      forget(*p);
      return nullptr;
    }
    return p;
  }
  const auto ticket = Ticket::parse(lease.ticket);
  if (!ticket) return nullptr;
  SessionSlot& l = line(lease.owner, ticket->timeout - ticket->lock_delay, ticket->lock_delay);
  if (l.session && l.session->state() == Session::State::expired) {
    close(l);
    return nullptr;
  }
  if (!l.session) {
    l.session = std::make_unique<Session>(options_, l.timeout(), ticket, l.lock_delay);
    l.resumed = true;
  }
  const auto without_line = [&](Result<QueueNode*> outcome) {
    close(l);
    return outcome;
  };
  QueueNode p{.key = lease.key,
              .owner = lease.owner,
              .ttl = l.ttl,
              .lock_delay = l.lock_delay,
              .attached = false,
              .line = &l};
  for (;;) {
    if (auto ok = l.session->connect(until); !ok) return without_line(fail(std::move(ok.error())));
    if (l.session->state() == Session::State::expired) return without_line(nullptr);
    p.session = l.session->id();
    auto found = find_node(*l.session, p, until);
    if (!found && found.error().code == Errc::timed_out && Clock::now() < until) continue;
    if (!found) return without_line(fail(std::move(found.error())));
    if (!*found) return without_line(nullptr);
    p.node_state = NodeState::granted;
    return &places_.emplace_back(std::move(p));
  }
}

// Writes the session's timeout into the record, for display. If the reply is lost, the next renewal
// finds another version of the node and reads the node again.
void SessionBackend::record_timeout(Session& s, QueueNode& p, std::string_view data,
                                    Duration timeout, const std::optional<RunEnd>& end,
                                    Deadline until) {
  if (data.starts_with(revoke_mark)) return;  // keep a request to stop
  auto record = NodeRecord::parse(data);
  if (!record) return;
  record->timeout = timeout;
  if (end && p.granted_at != Deadline{})
    record->run =
        NodeRecord::Run{*end, std::chrono::duration_cast<Duration>(Clock::now() - p.granted_at)};
  if (record->text() == data) return;
  const Session::Call call = s.multi({{Op::Kind::set, p.node, record->text(), p.version}});
  if (s.finish({&call}, until) && call.reply().rc == ZOK) ++p.version;
}

}  // namespace dlock::zookeeper
