// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/queue/queue_waiter.hpp"
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include "common/record_reader.hpp"
#include "zookeeper/records.hpp"

namespace dlock::zookeeper {

List List::of(const Session& s, const QueueNode& p, std::vector<std::string> names) {
  return {std::move(names), p.node, s.id(), s.connection()};
}

std::optional<Standing> Standing::of(Session& s, QueueNode& p, Dialect dialect,
                                     const std::optional<List>& list) {
  if (!list || list->node != p.node || list->session != s.id() ||
      list->connection != s.connection())
    return std::nullopt;
  return Standing{s, p, Directory::of(dialect, list->names)};
}

void QueueWaiter::reset() {
  list_.reset();
  watched_.clear();
  watched_data_.clear();
  holder_name_.clear();
  watch_ = 0;
  waited_ = false;
}

QueueWaiter::Step QueueWaiter::turn(Session& s, QueueNode& p, Deadline end) {
  const Deadline until = backend_.op_deadline();
  if (p.node.empty()) {
    TRY(entered, enter(s, p, until));
    if (!entered) return go_on;
  }
  if (const auto at = Standing::of(s, p, backend_.dialect(), list_)) return decide_now(*at, end);
  watched_.clear();  // if the connection has changed, its watches are gone
  const Session::Call names = s.children(path_);
  TRY_VOID(backend_.done(s, "list", {&names}, until));
  if (unknown(names.reply().rc)) return go_on;
  if (names.reply().rc != ZOK && names.reply().rc != ZNONODE)
    return fail(server_error(backend_.options(), "list", names.reply().rc));
  sent_at_ = names.reply().sent;
  list_ = List::of(s, p, names.reply().names);
  const auto at = Standing::of(s, p, backend_.dialect(), list_);
  return at ? decide_now(*at, end) : go_on;
}

Result<bool> QueueWaiter::enter(Session& s, QueueNode& p, Deadline until) {
  reset();
  if (p.node_state == NodeState::unclear) {
    TRY(found, backend_.find_node(s, p, until));
    if (found) {
      waited_ = true;
      return true;
    }
  }
  const Session::Call create =
      s.create(path_ + '/' + node_prefix(backend_.dialect(), request_.owner, request_.mode),
               NodeRecord::of(request_).text(), ZOO_EPHEMERAL_SEQUENTIAL);
  const Session::Call list = s.children(path_);
  p.no_node(NodeState::unclear);
  TRY_VOID(backend_.done(s, "acquire", {&create, &list}, until));
  const Reply& made = create.reply();
  if (unknown(made.rc)) return false;
  p.no_node(NodeState::none);
  if (made.rc == ZNONODE) {
    const std::string data = backend_.directory_data(request_.key);
    TRY_VOID(backend_.make_directory(s, path_, data, until));
    return false;
  }
  if (made.rc != ZOK) return fail(server_error(backend_.options(), "acquire", made.rc));
  p.set_node(made.text, made.stat);
  sent_at_ = entered_ = made.sent;
  if (list.reply().rc == ZOK) list_ = List::of(s, p, list.reply().names);
  return true;
}

QueueWaiter::Step QueueWaiter::decide_now(const Standing& at, Deadline end) {
  QueueNode& p = at.place;
  if (!at.directory.foreign.empty()) {
    const Error e = backend_.foreign(request_.key, at.directory.foreign);
    TRY_VOID(backend_.leave(p));
    return fail(e);
  }
  const Verdict v = decide(at.directory, name_of(p.node), request_.limit);
  // An operator removed our node, or everything: queue again, at the end.
  if (v.what == Verdict::What::missing) {
    backend_.renew_owner(request_);
    return go_on;
  }
  if (v.what == Verdict::What::run) return claim(at);
  if (!request_.wait) {
    auto who = holder(at.session, v.in_the_way);
    TRY_VOID(backend_.leave(p));
    if (too_new_) return fail(*too_new_);
    return Busy{std::move(who), {}, sent_at_};
  }
  return wait(at, v, end);
}

// It is our turn. If our node has just been created, that was a proof of the session, and a second
// proof is not needed.
QueueWaiter::Step QueueWaiter::claim(const Standing& at) {
  Session& s = at.session;
  QueueNode& p = at.place;
  const bool permit = request_.mode == Mode::permit;
  if (!waited_ && !permit) {
    backend_.watch(s, p);
    return granted(p, entered_);
  }
  std::vector<Op> ops;
  std::optional<unsigned> new_slot;
  if (permit && !p.slot) {
    const auto& used = at.directory.slots;
    unsigned slot = 0;
    while (std::ranges::find(used, slot) != used.end()) ++slot;
    NodeRecord r = NodeRecord::of(request_);
    r.slot = new_slot = slot;
    ops.push_back({Op::Kind::set, p.node, r.text()});  // the next waiter watches these data
    ops.push_back({.kind = Op::Kind::create,
                   .path = path_ + '/' + slot_node(slot),
                   .data = std::string{name_of(p.node)},
                   .flags = ZOO_EPHEMERAL});
  } else {
    ops.push_back({Op::Kind::check, p.node});
  }
  const Session::Call call = s.multi(ops);
  backend_.watch(s, p);
  list_.reset();
  auto answered = backend_.done(s, "acquire", {&call}, backend_.op_deadline());
  const int rc = call.reply().rc;
  if (!answered || unknown(rc)) {
    p.no_node(NodeState::unclear);  // so the next step looks for the node, and for its slot
    if (!answered) return fail(std::move(answered.error()));
    return go_on;
  }
  // The list was stale: the slot is taken, or our own node is gone.
  if (rc == ZNODEEXISTS || rc == ZNONODE) return go_on;
  if (rc != ZOK) return fail(server_error(backend_.options(), "acquire", rc));
  if (new_slot) {
    p.slot = new_slot;
    ++p.version;
  }
  return granted(p, call.reply().sent);
}

QueueWaiter::Step QueueWaiter::wait(const Standing& at, const Verdict& v, Deadline end) {
  using What = Verdict::What;
  Session& s = at.session;
  QueueNode& p = at.place;
  const std::uint64_t connection = s.connection();
  waited_ = true;
  if (Clock::now() >= end) {
    list_.reset();
    return waiting(&s, p, v);
  }
  const std::string target = v.what == What::wait_room ? path_ : path_ + '/' + v.watch;
  if (watched_ != target) {
    new_watch(s);
    watched_.clear();
    // A queue node has no children, so a watch on its children fires only when the node is deleted.
    // A watch on its data also fires when a permit is granted.
    const Session::Call set =
        v.what == What::wait_turn ? s.get(target, watch_) : s.children(target, watch_);
    TRY_VOID(backend_.done(s, "watch", {&set}, backend_.op_deadline()));
    const Reply& r = set.reply();
    if (unknown(r.rc) || r.rc == ZNONODE) {
      list_.reset();
      watched_.clear();
      return go_on;
    }
    if (r.rc != ZOK) return fail(server_error(backend_.options(), "watch", r.rc));
    sent_at_ = r.sent;
    watched_ = target;
    seen_ = r.stat;
    watches_data_ = v.what == What::wait_turn;
    if (v.what == What::wait_room) {  // the reply has a newer list of the directory
      list_ = List::of(s, p, r.names);
      return go_on;
    }
    const auto record = v.what == What::wait_turn ? NodeRecord::parse(r.text) : std::nullopt;
    if (record && record->slot && watched_data_ != target) {
      // The permit before us is granted, so list again, but only once for this node: if its limit
      // differs from ours, there may still be no room for us.
      watched_data_ = target;
      list_.reset();
      return go_on;
    }
  }
  const Session::Wake wake = listen_for_watch(s, connection, watched_, end);
  if (wake != Session::Wake::event)
    return waiting(wake == Session::Wake::interrupted ? nullptr : &s, p, v);
  if (!s.fired(watch_)) return go_on;
  s.forget(watch_);
  watch_ = 0;
  watched_.clear();
  list_.reset();
  return go_on;
}

QueueWaiter::Step QueueWaiter::waiting(Session* s, QueueNode& p, const Verdict& v) {
  Waiting w{v.ahead, holder_name_ == v.in_the_way ? holder_ : std::nullopt};
  if (s) w.holder = holder(*s, v.in_the_way);
  w.sent_at = sent_at_;
  if (too_new_) {
    TRY_VOID(backend_.leave(p));
    return fail(*too_new_);
  }
  return Progress{std::move(w)};
}

// Reads the holder, for display. If the holder cannot be read, this is no error; but data of a
// newer layout are an error (too_new_).
std::optional<HolderView> QueueWaiter::holder(Session& s, const std::string& name) {
  if (name == holder_name_) return holder_;
  const Session::Call get = s.get(path_ + '/' + name);
  if (!s.finish({&get}, backend_.op_deadline()) || get.reply().rc != ZOK) return std::nullopt;
  sent_at_ = get.reply().sent;
  holder_name_ = name;
  if (const auto layout = newer_layout(get.reply().text))
    too_new_ = backend_.too_new(name, *layout);
  const auto member = parse_member(backend_.dialect(), name);
  // if we want a permit, a foreign reader is shown as exclusive, because it excludes permits
  const bool shares = member && !(member->foreign && request_.mode == Mode::permit);
  holder_ = SessionBackend::view(get.reply().stat, get.reply().text,
                                 shares ? member->mode : Mode::exclusive);
  return holder_;
}

}  // namespace dlock::zookeeper
