// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/queue/queue_waiter.hpp"
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include "core/duration.hpp"
#include "zookeeper/records.hpp"

namespace dlock::zookeeper {

List List::of(const Session& s, const Place& p, std::vector<std::string> names) {
  return {std::move(names), p.node, s.id(), s.connection()};
}

std::optional<Standing> Standing::of(Session& s, Place& p, Dialect dialect,
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

QueueWaiter::Step QueueWaiter::turn(Session& s, Place& p, Deadline end) {
  const Deadline until = backend_.op_deadline();
  if (p.node.empty()) {
    TRY(entered, enter(s, p, until));
    if (!entered) return std::optional<Progress>{};
  }
  if (const auto at = Standing::of(s, p, backend_.dialect(), list_)) return decide_now(*at, end);
  watched_.clear();  // a watch of another connection is none
  const Session::Call names = s.children(path_);
  TRY_VOID(backend_.done(s, "list", {&names}, until));
  if (unknown(names.reply().rc)) return std::optional<Progress>{};
  if (names.reply().rc != ZOK && names.reply().rc != ZNONODE)
    return fail(server_error(backend_.options(), "list", names.reply().rc));
  list_ = List::of(s, p, names.reply().names);
  const auto at = Standing::of(s, p, backend_.dialect(), list_);
  return at ? decide_now(*at, end) : Step{};
}

Result<bool> QueueWaiter::enter(Session& s, Place& p, Deadline until) {
  reset();
  if (p.unsure) {
    const auto found = backend_.adopt(s, p, until);
    if (!found) return found;
    p.unsure = false;
    if (*found) {
      waited_ = true;
      return true;
    }
  }
  const Session::Call create =
      s.create(path_ + '/' + node_prefix(backend_.dialect(), request_.owner, request_.mode),
               NodeRecord::of(request_).text(), ZOO_EPHEMERAL_SEQUENTIAL);
  const Session::Call list = s.children(path_);
  p.unsure = true;
  TRY_VOID(backend_.done(s, "acquire", {&create, &list}, until));
  const Reply& made = create.reply();
  if (unknown(made.rc)) return false;
  p.unsure = false;
  if (made.rc == ZNONODE) {
    const auto dir =
        backend_.make_directory(s, path_, backend_.directory_data(request_.key), until);
    if (!dir) return fail(dir.error());
    return false;
  }
  if (made.rc != ZOK) return fail(server_error(backend_.options(), "acquire", made.rc));
  p.node = made.text;
  p.token = made.stat.token();
  p.version = made.stat.version;
  entered_ = made.sent;
  if (list.reply().rc == ZOK) list_ = List::of(s, p, list.reply().names);
  return true;
}

QueueWaiter::Step QueueWaiter::decide_now(const Standing& at, Deadline end) {
  Place& p = at.place;
  if (!at.directory.foreign.empty()) {
    const Error e = backend_.foreign(request_.key, at.directory.foreign);
    TRY_VOID(backend_.leave(p));
    return fail(e);
  }
  const Verdict v = decide(at.directory, name_of(p.node), request_.limit);
  // an operator removed it, or everything; we queue again, at the end
  if (v.what == Verdict::What::missing) {
    backend_.begin_anew(p, request_);
    return std::optional<Progress>{};
  }
  if (v.what == Verdict::What::run) return claim(at);
  if (!request_.wait) {
    auto who = holder(at.session, v.in_the_way);
    TRY_VOID(backend_.leave(p));
    if (too_new_) return fail(*too_new_);
    return Progress{Busy{std::move(who)}};
  }
  return wait(at, v, end);
}

// Our turn. What the create itself has just committed needs no second proof.
QueueWaiter::Step QueueWaiter::claim(const Standing& at) {
  Session& s = at.session;
  Place& p = at.place;
  // requests of their own, of which no answer counts
  for (const std::string& mark : at.directory.old_marks) (void)s.remove(path_ + '/' + mark);
  const bool permit = request_.mode == Mode::permit;
  if (!waited_ && !permit) {
    backend_.watch(s, p);
    return granted(p, entered_);
  }
  std::vector<Op> ops;
  unsigned slot = p.slot;
  const bool take_slot = permit && !p.slotted;
  if (take_slot) {
    const auto& taken = at.directory.slots;
    slot = 0;
    while (std::find(taken.begin(), taken.end(), slot) != taken.end()) ++slot;
    NodeRecord r = NodeRecord::of(request_);
    r.slot = slot;
    ops.push_back({Op::Kind::set, p.node, r.text()});  // the one behind us watches this data
    ops.push_back({Op::Kind::create, path_ + '/' + slot_node(slot), std::string{name_of(p.node)},
                   -1, ZOO_EPHEMERAL});
  } else {
    ops.push_back({Op::Kind::check, p.node});
  }
  const Session::Call call = s.multi(std::move(ops));
  backend_.watch(s, p);
  list_.reset();
  auto answered = backend_.done(s, "acquire", {&call}, backend_.op_deadline());
  const int rc = call.reply().rc;
  if (!answered || unknown(rc)) {
    p.unsure = true;  // and the node is looked for, with its slot
    p.node.clear();
    if (!answered) return fail(std::move(answered.error()));
    return std::optional<Progress>{};
  }
  // The list was old: a slot taken, our own node gone.
  if (rc == ZNODEEXISTS || rc == ZNONODE) return std::optional<Progress>{};
  if (rc != ZOK) return fail(server_error(backend_.options(), "acquire", rc));
  p.slot = slot;
  p.slotted = permit;
  if (take_slot) ++p.version;
  return granted(p, call.reply().sent);
}

QueueWaiter::Step QueueWaiter::wait(const Standing& at, const Verdict& v, Deadline end) {
  using What = Verdict::What;
  Session& s = at.session;
  Place& p = at.place;
  const std::uint64_t connection = s.connection();
  waited_ = true;
  if (Clock::now() >= end) {
    list_.reset();
    TRY(said, waiting(&s, p, v));
    return std::move(said);
  }
  const std::string target = v.what == What::wait_room ? path_ : path_ + '/' + v.watch;
  if (watched_ != target) {
    if (watch_ != 0) s.forget(watch_);
    watch_ = s.new_watch();
    watched_.clear();
    // A node of the queue has no children, so a watch on those fires at its deletion alone; one on
    // its data at a permit's grant as well.
    const Session::Call set =
        v.what == What::wait_turn ? s.get(target, watch_) : s.children(target, watch_);
    TRY_VOID(backend_.done(s, "watch", {&set}, backend_.op_deadline()));
    const Reply& r = set.reply();
    if (unknown(r.rc) || r.rc == ZNONODE) {
      backend_.relists += r.rc == ZNONODE;
      list_.reset();
      watched_.clear();
      return std::optional<Progress>{};
    }
    if (r.rc != ZOK) return fail(server_error(backend_.options(), "watch", r.rc));
    watched_ = target;
    if (v.what == What::wait_room) {  // this list is the newer one
      list_ = List::of(s, p, r.names);
      return std::optional<Progress>{};
    }
    const auto record = v.what == What::wait_turn ? NodeRecord::parse(r.text) : std::nullopt;
    if (record && record->slot && watched_data_ != target) {
      // once: with another limit than ours it may hold a permit that we cannot have
      watched_data_ = target;
      list_.reset();
      return std::optional<Progress>{};
    }
  }
  for (;;) {
    if (s.fired(watch_)) {
      ++backend_.wakeups;
      s.forget(watch_);
      watch_ = 0;
      watched_.clear();
      list_.reset();
      return std::optional<Progress>{};
    }
    if (s.state() != Session::State::connected || s.connection() != connection)
      return std::optional<Progress>{};
    const Session::Heard heard = listen(s, path_, end);
    if (heard == Session::Heard::something) continue;
    TRY(said, waiting(heard == Session::Heard::interrupted ? nullptr : &s, p, v));
    return std::move(said);
  }
}

Result<Progress> QueueWaiter::waiting(Session* s, Place& p, const Verdict& v) {
  Waiting w{v.ahead, holder_name_ == v.in_the_way ? holder_ : std::nullopt, {}};
  if (s) w.holder = holder(*s, v.in_the_way);
  if (too_new_) {
    TRY_VOID(backend_.leave(p));
    return fail(*too_new_);
  }
  return Progress{std::move(w)};
}

// For display: an unknown holder is no failure, but data of a newer layout is an error.
std::optional<HolderView> QueueWaiter::holder(Session& s, const std::string& name) {
  if (name == holder_name_) return holder_;
  const Session::Call get = s.get(path_ + '/' + name);
  if (!s.finish({&get}, backend_.op_deadline()) || get.reply().rc != ZOK) return std::nullopt;
  holder_name_ = name;
  if (const auto layout = newer_layout(get.reply().text))
    too_new_ = backend_.too_new(name, *layout);
  const auto member = parse_member(backend_.dialect(), name);
  holder_ = QueueBackend::seen(get.reply(), member ? member->mode : Mode::exclusive);
  return holder_;
}

}  // namespace dlock::zookeeper
