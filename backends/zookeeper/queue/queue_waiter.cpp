// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/queue/queue_waiter.hpp"
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include "core/duration.hpp"
#include "zookeeper/node_record.hpp"

namespace dlock::zookeeper {

void QueueWaiter::reset() {
  names_.clear();
  watched_.clear();
  holder_name_.clear();
  watch_ = 0;
  listed_ = waited_ = false;
  made_ = 0;
}

QueueWaiter::Step QueueWaiter::turn(Session& s, Place& p, Deadline end) {
  const Deadline until = backend_.op_deadline();
  if (p.node.empty()) {
    const auto entered = enter(s, p, until);
    if (!entered) return fail(entered.error());
    if (!*entered) return std::optional<Progress>{};
  }
  if (s.connections() != connection_) {
    connection_ = s.connections();
    listed_ = false;
    watched_.clear();
  }
  if (!listed_) {
    const Session::Call list = s.children(path_);
    if (!s.finish({&list}, until))
      return fail(Errc::timed_out, fmt::format("list at {}: no answer in time", backend_.where()));
    if (unknown(list.reply().rc)) return std::optional<Progress>{};
    if (list.reply().rc != ZOK && list.reply().rc != ZNONODE)
      return fail(server_error(backend_.options(), "list", list.reply().rc));
    names_ = list.reply().names;
    listed_ = true;
  }
  return decide_now(s, p, end);
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
  connection_ = s.connections();
  p.unsure = true;
  if (!s.finish({&create, &list}, until))
    return fail(Errc::timed_out, fmt::format("acquire at {}: no answer in time", backend_.where()));
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
  p.token = static_cast<FencingToken>(made.stat.czxid);
  p.version = made.stat.version;
  entered_ = made.sent;
  made_ = made.stat.made;
  made_before_ = Clock::now();
  if (list.reply().rc == ZOK) {
    names_ = list.reply().names;
    listed_ = true;
  }
  return true;
}

QueueWaiter::Step QueueWaiter::decide_now(Session& s, Place& p, Deadline end) {
  const Directory d = Directory::of(backend_.dialect(), names_);
  if (!d.foreign.empty()) {
    const Error e = backend_.foreign(request_.key, d.foreign);
    if (auto left = backend_.leave(p); !left) return fail(std::move(left.error()));
    return fail(e);
  }
  const Verdict v = decide(d, name_of(p.node), request_.limit);
  // an operator removed it, or everything; we queue again, at the end
  if (v.what == Verdict::What::missing) {
    backend_.begin_anew(p, request_);
    return std::optional<Progress>{};
  }
  if (v.what == Verdict::What::run) {
    if (auto delay = in_delay(s, d, end); !delay || *delay) {
      if (delay && !request_.wait && std::holds_alternative<Busy>(**delay))
        if (auto left = backend_.leave(p); !left) return fail(std::move(left.error()));
      return delay;
    }
    return claim(s, p);
  }
  if (!request_.wait) {
    auto who = holder(s, v.in_the_way);
    if (auto left = backend_.leave(p); !left) return fail(std::move(left.error()));
    if (too_new_) return fail(*too_new_);
    return Progress{Busy{std::move(who)}};
  }
  return wait(s, p, v, end);
}

// The first client that finds a vanished holder notes that in its mark, and from then on its
// lock-delay runs, by the leader's clock: the mark's change compared with the creation of our own
// node. The time between sending the two requests and their replies is included.
Result<std::optional<Deadline>> QueueWaiter::gone_since(Session& s, const DelayMark& mark) {
  const std::string path = path_ + '/' + mark.name;
  for (unsigned tries = 0; tries < 3; ++tries) {
    const Session::Call look = s.get(path);
    if (!s.finish({&look}, backend_.op_deadline()))
      return fail(Errc::timed_out, fmt::format("look at {}: no answer in time", backend_.where()));
    const Reply& r = look.reply();
    if (unknown(r.rc) || r.rc == ZNONODE) return std::optional<Deadline>{};
    if (r.rc != ZOK) return fail(server_error(backend_.options(), "look at a lock-delay", r.rc));
    const Deadline now = Clock::now();
    if (r.stat.version > 0) {
      if (made_ == 0) return now;
      return std::min(now, made_before_ - std::chrono::milliseconds{made_ - r.stat.changed});
    }
    // of several, one counts
    const Session::Call say = s.multi({{Op::Kind::set, path, "gone", 0}});
    if (!s.finish({&say}, backend_.op_deadline()))
      return fail(Errc::timed_out,
                  fmt::format("write a lock-delay at {}: no answer in time", backend_.where()));
    const int rc = say.reply().rc;
    if (rc != ZOK && rc != ZBADVERSION && rc != ZNONODE && !unknown(rc))
      return fail(server_error(backend_.options(), "write a lock-delay", rc));
  }
  return std::optional<Deadline>{};
}

QueueWaiter::Step QueueWaiter::in_delay(Session& s, const Directory& d, Deadline end) {
  Deadline free{};
  for (const DelayMark& mark : d.vanished()) {
    auto at = std::find_if(delays_.begin(), delays_.end(),
                           [&](const auto& known) { return known.first == mark.name; });
    if (at == delays_.end()) {
      const auto since = gone_since(s, mark);
      if (!since) return fail(since.error());
      listed_ = listed_ && since->has_value();
      if (!*since) return step(end);
      at = delays_.insert(at, {mark.name, **since});
    }
    free = std::max(free, later(at->second, mark.delay));
  }
  if (Clock::now() >= free) return std::optional<Progress>{};
  waited_ = true;
  Waiting w{0, std::nullopt, {}};
  w.why = fmt::format(
      "its last holder vanished; its lock-delay ends in {}",
      format_duration(std::chrono::ceil<std::chrono::milliseconds>(free - Clock::now())));
  if (!request_.wait) return Progress{Busy{std::nullopt, w.why}};
  while (Clock::now() < std::min(free, end))
    if (listen(s, path_, std::min(free, end)) == Session::Heard::interrupted)
      return Progress{std::move(w)};
  listed_ = false;
  if (Clock::now() < free) return Progress{std::move(w)};
  return step(end);
}

// Our turn. What the create itself has just committed needs no second proof.
QueueWaiter::Step QueueWaiter::claim(Session& s, Place& p) {
  Deadline sent = entered_;
  const Directory d = Directory::of(backend_.dialect(), names_);
  const bool permit = request_.mode == Mode::permit;
  const bool marks = request_.lock_delay > Duration{} || !delays_.empty();
  if (waited_ || permit || marks) {
    std::vector<Op> ops;
    std::string mark{};
    unsigned slot = p.slot;
    const bool take_slot = permit && !p.slotted;
    if (take_slot) {
      slot = 0;
      while (std::find(d.slots.begin(), d.slots.end(), slot) != d.slots.end()) ++slot;
      NodeRecord r = NodeRecord::of(request_);
      r.slot = slot;
      ops.push_back({Op::Kind::set, p.node, r.text()});  // the one behind us watches this data
      ops.push_back({Op::Kind::create, path_ + '/' + slot_node(slot), std::string{name_of(p.node)},
                     -1, ZOO_EPHEMERAL});
    } else {
      ops.push_back({Op::Kind::check, p.node});
    }
    for (const DelayMark& gone : d.vanished())
      ops.push_back({Op::Kind::remove, path_ + '/' + gone.name});
    if (request_.lock_delay > Duration{} && p.mark.empty()) {
      mark = path_ + '/' + delay_node(request_.lock_delay, *d.find(name_of(p.node)));
      ops.push_back({Op::Kind::create, mark, "", -1, ZOO_PERSISTENT});
    }
    const Session::Call call = s.multi(std::move(ops)), look = backend_.watch(s, p);
    listed_ = false;
    if (!s.finish({&call, &look}, backend_.op_deadline())) {
      backend_.unwatch(s, p);
      p.unsure = true;  // and the node is looked for, with its slot and mark
      p.node.clear();
      return fail(Errc::timed_out,
                  fmt::format("acquire at {}: no answer in time", backend_.where()));
    }
    const int rc = call.reply().rc;
    if (unknown(rc) || look.reply().rc != ZOK) backend_.unwatch(s, p);
    if (unknown(rc)) {
      p.unsure = true;
      p.node.clear();
      return std::optional<Progress>{};
    }
    // The list was old: a slot taken, a mark removed by another, our own node gone.
    if (rc == ZNODEEXISTS || rc == ZNONODE) return std::optional<Progress>{};
    if (rc != ZOK) return fail(server_error(backend_.options(), "acquire", rc));
    sent = call.reply().sent;
    p.slot = slot;
    p.slotted = permit;
    if (!mark.empty()) p.mark = mark;
    if (take_slot) ++p.version;
  } else {
    const Session::Call look = backend_.watch(s, p);
    if (!s.finish({&look}, backend_.op_deadline()) || look.reply().rc != ZOK)
      backend_.unwatch(s, p);  // the renewal that proves it will tell
  }
  delays_.clear();
  return granted(p, sent);
}

QueueWaiter::Step QueueWaiter::wait(Session& s, Place& p, const Verdict& v, Deadline end) {
  using What = Verdict::What;
  waited_ = true;
  if (Clock::now() >= end) {
    listed_ = false;
    auto said = waiting(&s, p, v);
    if (!said) return fail(std::move(said.error()));
    return std::move(*said);
  }
  const std::string target = v.what == What::wait_room ? path_ : path_ + '/' + v.watch;
  if (watched_ != target || watch_session_ != &s) {
    if (watch_ != 0) s.forget(watch_);
    watch_ = s.new_watch();
    watch_session_ = &s;
    // A node of the queue has no children, so a watch on those fires at its deletion alone; one on
    // its data at a permit's grant as well.
    const Session::Call set =
        v.what == What::wait_turn ? s.get(target, watch_) : s.children(target, watch_);
    if (!s.finish({&set}, backend_.op_deadline()))
      return fail(Errc::timed_out, fmt::format("watch at {}: no answer in time", backend_.where()));
    const Reply& r = set.reply();
    if (unknown(r.rc) || r.rc == ZNONODE) {
      backend_.relists += r.rc == ZNONODE;
      listed_ = false;
      watched_.clear();
      return std::optional<Progress>{};
    }
    if (r.rc != ZOK) return fail(server_error(backend_.options(), "watch", r.rc));
    watched_ = target;
    if (v.what == What::wait_room) {  // this list is the newer one
      names_ = r.names;
      return std::optional<Progress>{};
    }
    const auto record = v.what == What::wait_turn ? NodeRecord::parse(r.text) : std::nullopt;
    if (record && record->slot && watched_data_ != target) {
      // once: with another limit than ours it may hold a permit that we cannot have
      watched_data_ = target;
      listed_ = false;
      return std::optional<Progress>{};
    }
  }
  for (;;) {
    if (s.fired(watch_)) {
      ++backend_.wakeups;
      s.forget(watch_);
      watch_ = 0;
      watched_.clear();
      listed_ = false;
      return std::optional<Progress>{};
    }
    if (s.state() != Session::State::connected || s.connections() != connection_)
      return std::optional<Progress>{};
    const Session::Heard heard = listen(s, path_, end);
    if (heard == Session::Heard::something) continue;
    auto said = waiting(heard == Session::Heard::interrupted ? nullptr : &s, p, v);
    if (!said) return fail(std::move(said.error()));
    return std::move(*said);
  }
}

Result<Progress> QueueWaiter::waiting(Session* s, Place& p, const Verdict& v) {
  Waiting w{v.ahead, holder_name_ == v.in_the_way ? holder_ : std::nullopt, {}};
  if (s) w.holder = holder(*s, v.in_the_way);
  if (too_new_) {
    if (auto left = backend_.leave(p); !left) return fail(std::move(left.error()));
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
