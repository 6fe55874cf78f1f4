// SPDX-License-Identifier: Apache-2.0
#include "mysql/held_backend.hpp"
#include <fmt/format.h>
#include <algorithm>

namespace dlock::mysql {
namespace {

using namespace std::chrono_literals;

constexpr Duration longest_wait = 10s;

}  // namespace

HeldBackend::~HeldBackend() {
  for (auto& [id, h] : held_) client_.drop(std::move(h.connection));
}

HeldBackend::Held* HeldBackend::mine(const Key& key, const Owner& owner) {
  const auto found = held_.find({key.text(), owner});
  return found == held_.end() ? nullptr : &found->second;
}

// Nobody waits for an alarm of a session that is over.
void HeldBackend::lose(const Key& key, const Owner& owner) {
  Held* h = mine(key, owner);
  if (!h || !h->connection) return;
  h->alarm = h->connection->silence();
  client_.drop(std::move(h->connection));
}

Result<std::unique_ptr<Waiter>> HeldBackend::enqueue(const Request& r) {
  if (auto ok = accept(r, longest_name()); !ok) return fail(std::move(ok.error()));
  return std::make_unique<HeldWaiter>(*this, r);
}

Result<Renewal> HeldBackend::renew(const Lease& lease, Duration ttl) {
  const std::string name = name_of(lease.key);
  Held* h = mine(lease.key, lease.owner);
  if (!h) {
    const auto r = look(name);
    if (!r) return fail(r.error());
    if (!r->ours || r->owner != lease.owner.hex()) return Renewal{Lost{"nobody holds it with this handle"}};
    return fail(refuse("only the process that has the connection can renew it"));
  }
  const auto over = [&](std::string_view why) {
    lose(lease.key, lease.owner);
    return Renewal{Lost{std::string{why}}};
  };
  if (!h->connection) return over("its session is over");
  Connection& c = *h->connection;
  const Deadline until = later(Clock::now(), client_.options().op_timeout);
  // A beat without an answer in time may get one later; the session is the same, so it counts as soon as it comes.
  if (c.under_way()) {
    const auto late = c.receive({until});
    if (late && !*late) return fail(Errc::timed_out, fmt::format("renew at {}: no answer in time", c.at().text()));
    if (!late) return over(late.error().message);
  }
  const Deadline sent = Clock::now();
  const auto set = c.wait_timeout(ttl, until);
  const auto kept = set ? beat(c, name, lease.owner, ttl, until) : Result<bool>(fail(set.error()));
  if (!kept) {
    // The session itself failed: the server ends what belongs to it. Anything else changes nothing.
    if (c.broken()) return over(kept.error().message);
    return fail(kept.error());
  }
  if (!*kept) return over("the session does not have it any more, or somebody wants it back (release --force)");
  Lease out{lease.key, lease.owner};
  out.token = h->token;
  out.attached = true;
  out.deadline = lease_end(sent, ttl);
  return Renewal{Kept{std::move(out)}};
}

Result<Released> HeldBackend::release(const Lease& lease) {
  const std::string name = name_of(lease.key);
  Held* h = mine(lease.key, lease.owner);
  if (!h) {
    const auto r = look(name);
    if (!r) return fail(r.error());
    if (!r->ours || r->owner != lease.owner.hex()) return Released::was_not_held;
    return fail(refuse(fmt::format("only the process that has the connection can release it ({})", r->who.text())));
  }
  if (!h->connection) {
    held_.erase({lease.key.text(), lease.owner});
    return Released::was_not_held;
  }
  const Deadline until = later(Clock::now(), client_.options().op_timeout);
  if (h->connection->under_way()) (void)h->connection->receive({until});  // of a heartbeat
  const auto done = give_up(*h->connection, name, lease.owner, until);
  const bool usable = done && !h->connection->broken();
  if (!done && !h->connection->broken()) return fail(done.error());
  auto connection = std::move(h->connection);
  held_.erase({lease.key.text(), lease.owner});
  connection->patient = false;
  if (usable) client_.give_back(std::move(connection));
  else client_.drop(std::move(connection));
  // Without a session there is no lock: it ended before, or it ends now.
  return done && *done ? Released::yes : Released::was_not_held;
}

Result<Released> HeldBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  const std::string name = name_of(key);
  const Deadline until = client_.usual_deadline();
  return client_.run<Released>(until, "", [&](Connection& c) -> Result<Released> {
    const auto r = look(c, name, until);
    if (!r) return fail(r.error());
    if (!r->held || (token && (!r->ours || r->fence != *token))) return Released::was_not_held;
    std::uint64_t session = r->ours ? r->conn : 0;
    if (!r->ours) {
      const auto stranger = session_of(c, name, until);
      if (!stranger) return fail(stranger.error());
      session = *stranger;
      if (session == 0) return fail(refuse("it is held by another program; only that can release it"));
    }
    // Its next heartbeat would notice by the record, too; the end of its session it notices at once.
    if (r->ours) {
      auto cleared =
          c.query("force a release",
                  fmt::format("UPDATE {} SET owner='' WHERE name={} AND fence={}", table_, hex(name), r->fence), until);
      if (!cleared) return fail(std::move(cleared.error()));
    }
    auto killed = c.query("force a release", fmt::format("KILL {}", session), until);
    if (!killed && c.error_number() != 1094) return fail(std::move(killed.error()));  // 1094: it is gone already
    for (;;) {                                                                        // until the server has cleaned up
      auto after = look(c, name, until);
      if (!after) return fail(after.error());
      if (!after->held || Clock::now() >= until) return Released::yes;
      const auto still = session_of(c, name, until);
      if (still && *still != 0 && *still != session) return Released::yes;
      nap(Duration{1000}, -1);
    }
  });
}

// ---- waiting ----------------------------------------------------------------------------------------------------------------

Result<void> HeldWaiter::connect() {
  if (connection_ && !connection_->broken()) return {};
  backend_.client_.drop(std::move(connection_));
  const Deadline until = backend_.client_.usual_deadline();
  auto c = backend_.client_.take(until);
  if (!c) return fail(std::move(c.error()));
  connection_ = std::move(*c);
  if (auto ok = backend_.fit(connection_->facts()); !ok) return fail(std::move(ok.error()));
  if (connection_->facts().read_only)
    return fail(Errc::unavailable,
                fmt::format("{} is read-only: locks live on the server that writes", connection_->at().text()));
  if (auto ok = connection_->wait_timeout(request_.ttl, until); !ok) return ok;
  return backend_.client_
      .run_on<std::monostate>(*connection_, until, backend_.schema_,
                              [&](Connection& s) -> Result<std::monostate> {
                                if (auto ok = backend_.prepare(s, name_, until); !ok) return fail(std::move(ok.error()));
                                return std::monostate{};
                              })
      .map([](std::monostate) {});
}

Result<Progress> HeldWaiter::granted(FencingToken token, Deadline sent) {
  HeldBackend::Held h;
  h.connection = std::move(connection_);
  h.connection->patient = true;
  h.token = token;
  Granted g{{request_.key, request_.owner}, h.connection->fd(), h.connection->alarm()};
  g.lease.token = token;
  g.lease.attached = true;
  g.lease.deadline = lease_end(sent, request_.ttl);
  backend_.held_.insert_or_assign({request_.key.text(), request_.owner}, std::move(h));
  return Progress{std::move(g)};
}

std::optional<HolderView> HeldWaiter::holder(std::string& why) {
  const auto r = backend_.look(name_);
  why.clear();
  if (!r || !r->held) return std::nullopt;
  for (const auto& n : backend_.notes(*r)) why += (why.empty() ? "" : "; ") + n;
  return backend_.view(*r);
}

Progress HeldWaiter::waiting() {
  if (!std::exchange(looked_, true)) last_.holder = holder(last_.why);
  return Progress{last_};
}

// What the session has, or was about to get, ends with it.
Result<Progress> HeldWaiter::failed(Error e) {
  backend_.client_.drop(std::move(connection_));
  return fail(std::move(e));
}

Result<Progress> HeldWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  if (name_.empty()) name_ = backend_.name_of(request_.key);
  if (auto* h = backend_.mine(request_.key, request_.owner)) {  // asked again for what we hold
    auto again = backend_.renew({request_.key, request_.owner}, request_.ttl);
    if (!again) return fail(std::move(again.error()));
    if (auto* kept = std::get_if<Kept>(&*again))
      return Progress{Granted{std::move(kept->lease), h->connection->fd(), h->connection->alarm()}};
    backend_.held_.erase({request_.key.text(), request_.owner});
  }
  for (unsigned breaks = 0;;) {
    if (!connection_ || !connection_->under_way()) {
      const bool fresh = !connection_;
      if (auto ok = connect(); !ok) return failed(std::move(ok.error()));
      if (fresh || !request_.wait || slice <= 0us) {
        const Deadline until = backend_.client_.usual_deadline(), sent = Clock::now();
        const bool had_worked = connection_->used && fresh;
        auto token = backend_.client_.run_on<std::optional<FencingToken>>(
            *connection_, until, backend_.schema_, [&](Connection& c) { return backend_.try_now(c, name_, request_, until); });
        if (!token) {
          // An idle connection that the server has closed meanwhile.
          if (connection_->broken() && had_worked && ++breaks <= 2) continue;
          return failed(std::move(token.error()));
        }
        if (*token) return granted(**token, sent);
        if (!request_.wait) {
          Busy busy;
          busy.holder = holder(busy.why);
          if (backend_.undo(*connection_, name_, until)) backend_.client_.give_back(std::move(connection_));
          return Progress{std::move(busy)};
        }
        looked_ = false;
        if (Clock::now() >= end) return waiting();
      }
      if (auto ok = backend_.before_wait(*connection_, name_, backend_.client_.usual_deadline()); !ok)
        return failed(std::move(ok.error()));
      if (auto ok = connection_->send("wait", backend_.wait(name_, std::chrono::duration<double>(longest_wait).count())); !ok)
        return failed(std::move(ok.error()));
      answer_by_ = later(Clock::now(), longest_wait + backend_.client_.options().op_timeout);
    }
    auto answer = connection_->receive({std::min(end, answer_by_), backend_.client_.options().interrupt_fd});
    if (!answer) {
      // A deadlock or the end of the statement's time: nothing is ours, ask again.
      if (connection_->remedy() == Remedy::again && backend_.undo(*connection_, name_, backend_.client_.usual_deadline())) {
        if (Clock::now() >= end) return waiting();
        continue;
      }
      return failed(std::move(answer.error()));
    }
    if (!*answer) {
      if (Clock::now() < answer_by_) return waiting();
      return failed({Errc::unavailable, "wait: no answer in time"});
    }
    if (backend_.got(**answer)) {
      ++backend_.wakeups_;
      const Deadline until = backend_.client_.usual_deadline(), sent = Clock::now();
      auto token = backend_.client_.run_on<FencingToken>(*connection_, until, backend_.schema_,
                                                         [&](Connection& c) { return backend_.note(c, name_, request_, until); });
      if (!token) return failed(std::move(token.error()));
      return granted(*token, sent);
    }
    looked_ = false;
    if (Clock::now() >= end) return waiting();
  }
}

Result<void> HeldWaiter::cancel() {
  if (connection_ && connection_->under_way()) {
    const Deadline until = backend_.client_.usual_deadline();
    const auto id = connection_->facts().thread;
    auto killed = backend_.client_.run<Answer>(
        until, "", [&](Connection& c) { return c.query("end the wait", fmt::format("KILL QUERY {}", id), until); });
    if (killed) (void)connection_->receive({until});
  }
  if (connection_ && !connection_->under_way() && !connection_->broken() &&
      backend_.undo(*connection_, name_, backend_.client_.usual_deadline()))
    backend_.client_.give_back(std::move(connection_));
  backend_.client_.drop(std::move(connection_));
  if (!backend_.mine(request_.key, request_.owner)) return {};
  const auto released = backend_.release({request_.key, request_.owner});
  if (!released) return fail(released.error());
  return {};
}

}  // namespace dlock::mysql
