// SPDX-License-Identifier: Apache-2.0
// A grant: renewal, detachment, release, and the watch on the own key.
#include "etcd/queue/queue_backend.hpp"
#include <fmt/format.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <algorithm>
#include "etcd/queue/queue_waiter.hpp"

namespace dlock::etcd {
namespace {

constexpr unsigned most_tries = 4;

Lost is_gone() { return {"etcd does not have it any more: it expired, or was removed"}; }

void add_to(int epoll, int fd) {
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.fd = fd;
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

}  // namespace

std::string QueueBackend::name_of(const Key& key) const {
  return traits_.native ? store_name(key) : key.text();
}
std::string QueueBackend::places(const std::string& name) const {
  return fmt::format("{}{}{}/", client_.options().root, traits_.native ? "lock/" : "", name);
}
std::string QueueBackend::last_key(const std::string& name) const {
  return fmt::format("{}last/{}", client_.options().root, name);
}
std::string QueueBackend::start_key(const std::string& name) const {
  return fmt::format("{}start/{}", client_.options().root, name);
}

Result<std::unique_ptr<Waiter>> QueueBackend::enqueue(const Request& r) {
  TRY_VOID(can_serve(traits_, r));
  return std::make_unique<QueueWaiter>(*this, r);
}

QueueBackend::Held& QueueBackend::keep(const Lease& lease, Held h) {
  h.timer = Fd{::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)};
  const itimerspec once{{0, 0}, {1, 0}};
  ::timerfd_settime(h.timer.get(), 0, &once, nullptr);
  add_to(alarm_.get(), h.timer.get());
  return held_[{lease.key.text(), lease.owner}] = std::move(h);
}

Result<QueueBackend::Held*> QueueBackend::held(const Lease& lease, std::string_view what,
                                               Deadline until) {
  const auto known = held_.find({lease.key.text(), lease.owner});
  if (known != held_.end() && (lease.token == 0 || known->second.token == lease.token))
    return &known->second;
  const std::string key = place(lease.key, lease.owner);
  TRY(answer, client_.txn(what, transaction({}, {get(key)}, {}), until));
  if (answer.range(0).empty()) return nullptr;
  const KeyValue& kv = answer.range(0).front();
  const auto token = static_cast<FencingToken>(kv.created);
  if (lease.token != 0 && token != lease.token) return nullptr;
  Record record = Record::parse(kv.value).value_or(Record{});
  const std::int64_t granted = record.granted;
  return &keep(
      lease, {.token = token, .lease = kv.lease, .record = std::move(record), .granted = granted});
}

// Interleavings:
// 1. The move got no answer: the next renewal finds the key with that lease, or with the one
//    before, and moves it on from there.
// 2. The move arrives after a later one was answered. It names the lease that the key had then, so
//    it is refused: otherwise it would put the key back on a lease that ends before the deadline.
// 3. The new lease ends before the move arrives: refused.
Result<Renewal> QueueBackend::renew(const Lease& lease, Duration ttl) {
  const Deadline until = client_.usual_deadline();
  TRY(h, held(lease, "renew", until));
  if (!h) return Renewal{is_gone()};
  const std::string key = place(lease.key, lease.owner);
  const auto token = static_cast<std::int64_t>(h->token);
  TRY(fresh, client_.grant("renew", ttl + h->record.lock_delay, until));
  for (unsigned tries = 0; tries < most_tries; ++tries) {
    TRY(moved, client_.txn("renew",
                           transaction({created(key, token), leased(key, h->lease)},
                                       {put_lease(key, fresh.id), get(key)}, {get(key)}),
                           until));
    if (moved.lease_missing) break;
    const KeyValues& mine = moved.range(moved.succeeded ? 1 : 0);
    if (mine.empty() || mine.front().created != token) {
      let_go(lease);
      return Renewal{is_gone()};
    }
    const auto record = Record::parse(mine.front().value);
    h->lease = mine.front().lease;
    if (h->lease != fresh.id) continue;
    if (!h->timer && (!h->watch || h->moves != client_.moves())) watch_own(lease, *h, until);
    Lease kept = lease;
    kept.mode = h->record.mode;
    kept.token = h->token;
    kept.slot = h->record.slot.value_or(0);
    kept.deadline = lease_end(fresh.sent, ttl);
    return Renewal{Kept{std::move(kept), record && record->revoked}};
  }
  return fail(no_answer("renew", where()));
}

// The value changes with the lease (no lock-delay any more), so the transaction names the revision
// that was read: a mark of --revoke made meanwhile stays.
Result<Renewal> QueueBackend::detach(const Lease& lease, Duration ttl, std::optional<RunEnd> end) {
  const Deadline until = client_.usual_deadline();
  TRY(h, held(lease, "detach", until));
  if (!h) return Renewal{is_gone()};
  const std::string key = place(lease.key, lease.owner);
  TRY(fresh, client_.grant("detach", ttl, until));
  std::int64_t revision = 0;
  Record record = h->record;
  for (unsigned tries = 0; tries < most_tries; ++tries) {
    Parts then = {put(key, record.text(), fresh.id)};
    if (end && traits_.keeps_last_run) add_last_run(then, lease, *h, *end);
    TRY(moved, client_.txn("detach",
                           transaction({created(key, static_cast<std::int64_t>(h->token)),
                                        modified(key, revision)},
                                       std::move(then), {get(key)}),
                           until));
    if (moved.lease_missing) break;
    const bool there =
        moved.succeeded || (!moved.range(0).empty() &&
                            moved.range(0).front().created == static_cast<std::int64_t>(h->token));
    if (!there) {
      let_go(lease);
      return Renewal{is_gone()};
    }
    if (moved.succeeded || moved.range(0).front().lease == fresh.id) {
      Lease kept = lease;
      kept.attached = false;
      kept.mode = record.mode;
      kept.token = h->token;
      kept.slot = record.slot.value_or(0);
      kept.deadline = lease_end(fresh.sent, ttl);
      let_go(lease);
      return Renewal{Kept{std::move(kept), record.revoked}};
    }
    revision = moved.range(0).front().modified;
    record = Record::parse(moved.range(0).front().value).value_or(h->record);
    record.ttl = ttl;
    record.lock_delay = {};
    record.granted = h->granted;
  }
  return fail(no_answer("detach", where()));
}

// Deletes by create revision: a late or repeated one never ends another grant. The lease is left
// alone: whether it still has the key is not known, and an empty one ends by itself.
Result<Released> QueueBackend::release(const Lease& lease, std::optional<RunEnd> end) {
  const Deadline until = client_.usual_deadline();
  TRY(h, held(lease, "release", until));
  if (!h) return unanswered_.answered(lease, false);
  const std::string key = place(lease.key, lease.owner);
  Parts then = {remove(key)};
  if (end && traits_.keeps_last_run) add_last_run(then, lease, *h, *end);
  auto gone = client_.txn(
      "release",
      transaction({created(key, static_cast<std::int64_t>(h->token))}, std::move(then), {}), until);
  if (!gone) {
    if (!retryable(gone.error().code) || gone.error().code == Errc::unavailable)
      return fail(std::move(gone.error()));
    unanswered_.add(lease);
    return fail(std::move(gone.error()));
  }
  let_go(lease);
  return unanswered_.answered(lease, gone->succeeded, gone->unclear);
}

void QueueBackend::add_last_run(Parts& operations, const Lease& lease, const Held& h,
                                const RunEnd& end) const {
  const std::string name = name_of(lease.key), key = last_key(name);
  LastRun last{h.token, client_.store_now(), end, h.granted, h.record.who};
  last.ended = std::max(last.ended, last.started);
  // in front the token, in digits that compare as it does: that of a newer grant stays
  const std::string value =
      fmt::format("{:020} {} {}", h.token,
                  h.record.key.empty() ? "-" : percent_encode(h.record.key), last.text(' '));
  operations.push_back(nested(
      transaction({value_above(key, fmt::format("{:020}~", h.token))}, {}, {put(key, value)})));
}

void QueueBackend::watch_own(const Lease& lease, Held& h, Deadline until) {
  const std::string key = place(lease.key, lease.owner);
  const Json only_there =
      transaction({created(key, static_cast<std::int64_t>(h.token))}, {get(key)}, {});
  const auto now = client_.txn("watch", only_there, until);
  if (!now) return;
  // from its last change on: one made before, too, is noticed
  const std::int64_t from = now->range(0).empty() ? static_cast<std::int64_t>(h.token) + 1
                                                  : now->range(0).front().modified;
  auto watch = client_.watch(key, "", from, true, until);
  if (!watch) return;
  h.watch = std::move(*watch);
  h.moves = client_.moves();
  add_to(alarm_.get(), h.watch->fd());
}

bool QueueBackend::alarmed(const Lease& lease) {
  const auto found = held_.find({lease.key.text(), lease.owner});
  if (found == held_.end()) return true;
  Held& h = found->second;
  std::uint64_t ticks = 0;
  if (h.timer && ::read(h.timer.get(), &ticks, sizeof ticks) == sizeof ticks) {
    h.timer.reset();
    watch_own(lease, h, client_.usual_deadline());
  }
  while (h.watch) {
    const WatchLine line = h.watch->next({Clock::now()});
    for (const WatchLine::Event& e : line.events) {
      const auto record = Record::parse(e.kv.value);
      if (e.deleted || (record && record->revoked && !h.record.revoked)) {
        h.record.revoked = !e.deleted;
        ++wakeups_;
        if (e.deleted) h.watch.reset();
        return true;
      }
    }
    if (line.over) h.watch.reset();  // made anew with the next renewal
    if (line.events.empty()) break;
  }
  return false;
}

Result<Contenders> QueueBackend::read(std::string_view what, const Key& key, Deadline until) {
  TRY(answer, client_.txn(what, transaction({}, {list(places(key))}, {}), until));
  return contenders(answer.range(0), places(key));
}

}  // namespace dlock::etcd
