// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/ephemeral/ephemeral_waiter.hpp"
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include "core/text.hpp"

namespace dlock::zookeeper {

EphemeralWaiter::Step EphemeralWaiter::turn(Session& s, Place& p, Deadline end) {
  const Deadline until = backend_.op_deadline();
  if (watch_ != 0 && watch_session_ == &s && connection_ == s.connection() && !s.fired(watch_))
    return look(s, p, end);

  connection_ = s.connection();
  const Session::Call create = s.create(path_, NodeRecord::of(request_).text(), ZOO_EPHEMERAL);
  p.unsure = true;
  TRY_VOID(backend_.done(s, "acquire", {&create}, until));
  const Reply& made = create.reply();
  if (unknown(made.rc)) return std::optional<Progress>{};
  if (made.rc == ZNONODE) {
    p.unsure = false;
    const auto dir =
        backend_.make_directory(s, std::string{parent_of(path_)}, "", until, /*container=*/false);
    if (!dir) return fail(dir.error());
    return std::optional<Progress>{};
  }
  if (made.rc == ZNODEEXISTS) return look(s, p, end);
  p.unsure = false;
  if (made.rc != ZOK) return fail(server_error(backend_.options(), "acquire", made.rc));
  p.node = path_;
  p.token = made.stat.token();
  p.version = made.stat.version;
  backend_.watch(s, p);
  return granted(p, made.sent);
}

EphemeralWaiter::Step EphemeralWaiter::look(Session& s, Place& p, Deadline end) {
  if (watch_ == 0 || watch_session_ != &s || s.fired(watch_)) {
    if (watch_session_ == &s) s.forget(watch_);
    watch_ = s.new_watch();
    watch_session_ = &s;
    const Session::Call get = s.get(path_, watch_);
    auto answered = backend_.done(s, "watch", {&get}, backend_.op_deadline());
    const Reply& r = get.reply();
    if (!answered || r.rc != ZOK) {
      s.forget(std::exchange(watch_, 0));
      if (!answered) return fail(std::move(answered.error()));
      if (unknown(r.rc) || r.rc == ZNONODE) return std::optional<Progress>{};
      return fail(server_error(backend_.options(), "watch", r.rc));
    }
    if (r.stat.owner == 0) {
      p.unsure = false;
      return fail(Errc::usage, fmt::format("--key {}: its node at {} is not ephemeral, so it never "
                                           "goes away by itself; recipe ephemeral cannot use it",
                                           quoted(request_.key.text()), backend_.where()));
    }
    if (r.stat.owner == s.id() && EphemeralBackend::is_of(r.text, request_.owner)) {
      p.node = path_;
      p.token = r.stat.token();
      p.version = r.stat.version;
      p.granted = true;
      p.unsure = false;
      return std::optional<Progress>{};  // turn() renews it
    }
    p.unsure = false;
    holder_ = EphemeralBackend::seen(r);
  }
  if (!request_.wait) return Progress{Busy{holder_}};
  for (;;) {
    if (s.fired(watch_)) {
      ++backend_.wakeups;
      return std::optional<Progress>{};
    }
    if (s.state() != Session::State::connected || s.connection() != connection_)
      return std::optional<Progress>{};
    if (Clock::now() >= end) return Progress{Waiting{0, holder_}};
    if (listen(s, path_, end) == Session::Heard::interrupted) return Progress{Waiting{0, holder_}};
  }
}

}  // namespace dlock::zookeeper
