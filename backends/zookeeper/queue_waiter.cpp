// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/queue_waiter.hpp"
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include "core/duration.hpp"
#include "zookeeper/record.hpp"

namespace dlock::zookeeper {

void QueueWaiter::reset() {
  names_.clear();
  watched_.clear();
  holder_name_.clear();
  watch_ = 0;
  listed_ = waited_ = false;
}

QueueWaiter::Step QueueWaiter::turn(Deadline end) {
  const int interrupt = request_.wait ? backend_.options().interrupt_fd : -1;
  auto line = backend_.line_for(request_, later(Clock::now(), backend_.options().connect_timeout), interrupt);
  if (!line) return fail(std::move(line.error()));
  Session& s = *(*line)->session;
  Place& p = backend_.place_for(request_);
  if (p.session != s.id()) {
    reset();
    p.node.clear();
    p.unsure = p.granted = p.slotted = false;
    p.mark.clear();
  }
  p.line = *line;
  p.session = s.id();
  if (p.granted) {
    const auto renewal = backend_.renew(backend_.lease_of(p, Clock::now()), request_.ttl);
    if (!renewal) return fail(renewal.error());
    if (const auto* kept = std::get_if<Kept>(&*renewal)) return Progress{Granted{kept->lease, -1, s.alarm_fd()}};
    reset();
    return std::optional<Progress>{};  // it ended just now; the place is forgotten
  }
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
    if (!s.finish({&list}, until)) return fail(Errc::timed_out, fmt::format("list at {}: no answer in time", backend_.where()));
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
  const Session::Call create = s.create(path_ + '/' + node_prefix(backend_.dialect(), request_.owner, request_.mode),
                                        Record::of(request_).text(), ZOO_EPHEMERAL_SEQUENTIAL);
  const Session::Call list = s.children(path_);
  connection_ = s.connections();
  p.unsure = true;
  if (!s.finish({&create, &list}, until))
    return fail(Errc::timed_out, fmt::format("acquire at {}: no answer in time", backend_.where()));
  const Reply& made = create.reply();
  if (unknown(made.rc)) return false;
  p.unsure = false;
  if (made.rc == ZNONODE) {
    const auto dir = backend_.make_directory(s, path_, backend_.directory_data(request_.key), until);
    if (!dir) return fail(dir.error());
    return false;
  }
  if (made.rc != ZOK) return fail(server_error(backend_.options(), "acquire", made.rc));
  p.node = made.text;
  p.token = static_cast<FencingToken>(made.stat.czxid);
  p.version = made.stat.version;
  entered_ = made.sent;
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
  if (v.what == Verdict::What::missing) {  // an operator removed it, or everything; we queue again, at the end
    p.node.clear();
    return std::optional<Progress>{};
  }
  if (v.what == Verdict::What::run) {
    if (auto delay = in_delay(s, d, end); !delay || *delay) {
      if (delay && !request_.wait)
        if (auto left = backend_.leave(p); !left) return fail(std::move(left.error()));
      return delay;
    }
    return claim(s, p);
  }
  if (!request_.wait) {
    auto who = holder(s, v.in_the_way);
    if (auto left = backend_.leave(p); !left) return fail(std::move(left.error()));
    return Progress{Busy{std::move(who)}};
  }
  return wait(s, p, v, end);
}

// The lock-delay of holders that vanished, as far as this waiter has seen: it counts from when we saw it, so it is never too short.
QueueWaiter::Step QueueWaiter::in_delay(Session& s, const Directory& d, Deadline end) {
  Deadline free{};
  for (const DelayMark& mark : d.vanished()) {
    auto at = std::find_if(delays_.begin(), delays_.end(), [&](const auto& known) { return known.first == mark.name; });
    if (at == delays_.end()) at = delays_.insert(at, {mark.name, Clock::now()});
    free = std::max(free, later(at->second, mark.delay));
  }
  if (Clock::now() >= free) return std::optional<Progress>{};
  waited_ = true;
  Waiting w{0, std::nullopt, {}};
  w.why = fmt::format("its last holder vanished; its lock-delay ends in {}",
                      format_duration(std::chrono::ceil<std::chrono::milliseconds>(free - Clock::now())));
  if (!request_.wait) return Progress{Busy{std::nullopt, w.why}};
  while (Clock::now() < std::min(free, end))
    if (s.listen(std::min(free, end), backend_.options().interrupt_fd) == Session::Heard::interrupted)
      return Progress{std::move(w)};
  listed_ = false;
  if (Clock::now() < free) return Progress{std::move(w)};
  return turn(end);
}

// Our turn. What was committed just now by the create itself needs no second proof.
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
      Record r = Record::of(request_);
      r.slot = slot;
      ops.push_back({Op::Kind::set, p.node, r.text()});  // the one behind us watches these data
      ops.push_back({Op::Kind::create, path_ + '/' + slot_node(slot), std::string{name_of(p.node)}, -1, ZOO_EPHEMERAL});
    } else {
      ops.push_back({Op::Kind::check, p.node});
    }
    for (const DelayMark& gone : d.vanished()) ops.push_back({Op::Kind::remove, path_ + '/' + gone.name});
    if (request_.lock_delay > Duration{} && p.mark.empty()) {
      mark = path_ + '/' + delay_node(request_.lock_delay, name_of(p.node));
      ops.push_back({Op::Kind::create, mark, "", -1, ZOO_PERSISTENT});
    }
    const Session::Call call = s.multi(std::move(ops));
    listed_ = false;
    if (!s.finish({&call}, backend_.op_deadline())) {
      p.unsure = true;  // and the node is looked for, with its slot and mark
      p.node.clear();
      return fail(Errc::timed_out, fmt::format("acquire at {}: no answer in time", backend_.where()));
    }
    const int rc = call.reply().rc;
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
  }
  p.granted = true;
  p.ttl = request_.ttl;
  delays_.clear();
  return Progress{Granted{backend_.lease_of(p, sent), -1, s.alarm_fd()}};
}

QueueWaiter::Step QueueWaiter::wait(Session& s, Place&, const Verdict& v, Deadline end) {
  using What = Verdict::What;
  waited_ = true;
  if (Clock::now() >= end) {
    listed_ = false;
    auto said = waiting(&s, &v);
    if (!said) return fail(std::move(said.error()));
    return std::move(*said);
  }
  const std::string target = v.what == What::wait_room ? path_ : path_ + '/' + v.watch;
  if (watched_ != target || watch_session_ != &s) {
    if (watch_ != 0) s.forget(watch_);
    watch_ = s.new_watch();
    watch_session_ = &s;
    // A node of the queue has no children, so a watch on those fires at its deletion alone; one on its data at a permit's grant as well.
    const Session::Call set = v.what == What::wait_turn ? s.get(target, watch_) : s.children(target, watch_);
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
    const auto record = v.what == What::wait_turn ? Record::parse(r.text) : std::nullopt;
    if (record && record->slot && watched_data_ != target) {
      watched_data_ = target;  // once: with another limit than ours it may hold a permit that we cannot have
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
    if (s.state() != Session::State::connected || s.connections() != connection_) return std::optional<Progress>{};
    const Session::Heard heard = s.listen(end, backend_.options().interrupt_fd);
    if (heard == Session::Heard::something) continue;
    auto said = waiting(heard == Session::Heard::interrupted ? nullptr : &s, &v);
    if (!said) return fail(std::move(said.error()));
    return std::move(*said);
  }
}

Result<Progress> QueueWaiter::waiting(Session* s, const Verdict* v, std::string why) {
  Waiting w{v->ahead, holder_name_ == v->in_the_way ? holder_ : std::nullopt, std::move(why)};
  if (s) w.holder = holder(*s, v->in_the_way);
  return Progress{std::move(w)};
}

// For people: not knowing is no failure.
std::optional<HolderView> QueueWaiter::holder(Session& s, const std::string& name) {
  if (name == holder_name_) return holder_;
  const Session::Call get = s.get(path_ + '/' + name);
  if (!s.finish({&get}, backend_.op_deadline()) || get.reply().rc != ZOK) return std::nullopt;
  holder_name_ = name;
  const auto member = parse_member(backend_.dialect(), name);
  holder_ = QueueBackend::seen(get.reply(), member ? member->mode : Mode::exclusive);
  return holder_;
}

}  // namespace dlock::zookeeper
