// SPDX-License-Identifier: Apache-2.0
// What a holder does: renewal, detachment, release, and the watch on its own key.
#include "etcd/queue/queue_backend.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <algorithm>
#include "common/record_reader.hpp"
#include "core/text.hpp"
#include "etcd/queue/queue_waiter.hpp"

namespace dlock::etcd {
namespace {

constexpr unsigned most_tries = 8;

bool may_be_done(const Error& e) noexcept {
  return e.code == Errc::timed_out || e.code == Errc::protocol;
}

Lost is_gone() { return {"etcd does not have it any more: it expired, or was removed"}; }

// epoll's bits equal poll(2)'s.
void add_to(int epoll, int fd, short events) {
  epoll_event e{};
  e.events = static_cast<std::uint32_t>(events);
  e.data.fd = fd;
  if (::epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &e) != 0) ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

void set_timer(int fd, Deadline at) {
  const auto t = std::max<std::int64_t>(1, at.time_since_epoch().count());
  itimerspec once{};  // stays zero for no_deadline: the timer never fires
  if (at != no_deadline) once.it_value = {t / 1'000'000'000, t % 1'000'000'000};
  ::timerfd_settime(fd, TFD_TIMER_ABSTIME, &once, nullptr);
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
  h.key = place(lease.key, lease.owner);
  h.timer = Fd{::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)};
  set_timer(h.timer.get(), later(Clock::now(), std::chrono::seconds{1}));
  add_to(alarm_.get(), h.timer.get(), POLLIN);
  return held_[{lease.key.text(), lease.owner}] = std::move(h);
}

Result<QueueBackend::Held*> QueueBackend::known(const Lease& lease, std::string_view what,
                                                Deadline until) {
  const auto at = held_.find({lease.key.text(), lease.owner});
  if (at != held_.end() && (lease.token == 0 || at->second.token == lease.token))
    return &at->second;
  TRY(answer, client_.read(what, {get(place(lease.key, lease.owner))}, until));
  if (answer.range(0).empty()) return nullptr;
  const KeyValue& kv = answer.range(0).front();
  const auto token = static_cast<FencingToken>(kv.created);
  if (lease.token != 0 && token != lease.token) return nullptr;
  Record record = Record::parse(kv.value).value_or(Record{});
  return &keep(
      lease,
      {.token = token, .lease = kv.lease, .record = std::move(record), .seen = answer.revision});
}

// With a lock-delay, the key stays for the lock-delay after the lock has ended. So the key alone
// does not show that the lock is held.
Result<QueueBackend::Held*> QueueBackend::held(const Lease& lease, std::string_view what,
                                               Deadline until) {
  TRY(h, known(lease, what, until));
  if (!h || h->record.lock_delay <= Duration{}) return h;
  if (lease.deadline != no_deadline) return Clock::now() < lease.deadline ? h : nullptr;
  TRY(left, rest(h->lease, h->record.lock_delay, until));
  return left > Duration{} ? h : nullptr;
}

Result<Duration> QueueBackend::rest(std::int64_t lease, Duration lock_delay, Deadline until) {
  TRY(left, client_.time_left(lease, until));
  return left.value_or(Duration{}) - lock_delay;
}

Result<bool> QueueBackend::change(std::string_view what, const Json& grant, const std::string& key,
                                  Deadline until, const Then& then) {
  for (unsigned tries = 0; tries < most_tries; ++tries) {
    TRY(now, client_.txn(what, transaction({grant}, {get(key)}, {}), until));
    if (!now.succeeded) return false;
    const KeyValues& found = now.range(0);
    TRY(operations, then(found));
    if (!operations) return true;
    const std::int64_t version = found.empty() ? 0 : found.front().modified;
    TRY(made,
        client_.txn(what, transaction({grant, modified(key, version)}, std::move(*operations), {}),
                    until));
    if (made.succeeded) return true;
    if (made.lease_missing) break;
  }
  return fail(no_answer(what, where()));
}

Lease QueueBackend::kept(const Lease& lease, const Held& h, const NewLease& by, Duration ttl) {
  Lease made = lease;
  made.mode = h.record.mode;
  made.token = h.token;
  made.slot = h.record.slot.value_or(0);
  made.deadline = lease_end(by.sent, ttl);
  return made;
}

// Interleavings of the transaction that moves the key to a new lease (the move):
// 1. The move got no reply. The next renewal finds the key with the new lease or with the lease
//    before it, and moves the key from the lease that it found.
// 2. A delayed move arrives after a newer move got its reply. The delayed move names the lease that
//    the key had when this move was sent, so etcd refuses it. Otherwise the key would go back to a
//    lease that ends before the deadline.
// 3. The new lease ends before the move arrives. Then etcd refuses the move.
//
// A move that also writes a value (with Lease::ended) names the revision that it replaces. So it
// does not overwrite a mark that --revoke set meanwhile. The revision is known from the second
// renewal on.
Result<Renewal> QueueBackend::renew(const Lease& lease, Duration ttl) {
  const Deadline until = client_.usual_deadline();
  TRY(h, held(lease, "renew", until));
  if (!h) return Renewal{is_gone()};
  TRY(fresh, client_.grant("renew", ttl + h->record.lock_delay, until));
  if (!lease.ended.empty()) h->ended = lease.ended;
  for (unsigned tries = 0; tries < most_tries; ++tries) {
    Parts unchanged = {created(h->key, revision(*h)), leased(h->key, h->lease)};
    Json move = put_lease(h->key, fresh.id);
    const bool notes_end = !h->ended.empty() && h->modified != 0;
    if (notes_end) {
      unchanged.push_back(modified(h->key, h->modified));
      move = put(h->key, with_end(h->value, h->ended), fresh.id);
    }
    TRY(moved, client_.txn(
                   "renew",
                   transaction(std::move(unchanged), {std::move(move), get(h->key)}, {get(h->key)}),
                   until));
    if (moved.lease_missing) break;
    const KeyValues& mine = moved.range(moved.succeeded ? 1 : 0);
    if (mine.empty() || mine.front().created != revision(*h)) {
      let_go(lease);
      return Renewal{is_gone()};
    }
    const auto record = Record::parse(mine.front().value);
    h->lease = mine.front().lease;
    h->seen = moved.revision;
    h->modified = mine.front().modified;
    h->value = mine.front().value;
    if (h->lease != fresh.id) continue;
    if (notes_end) h->ended.clear();
    if (!client_.is_current(h->watch)) watch_own(*h);
    return Renewal{Kept{kept(lease, *h, fresh, ttl), record && record->revoked}};
  }
  return fail(no_answer("renew", where()));
}

// A detachment changes the lease, and also removes the lock-delay from the value. So the
// transaction names the revision that was read, and does not overwrite a mark that --revoke set
// meanwhile.
Result<Renewal> QueueBackend::detach(const Lease& lease, Duration ttl, std::optional<RunEnd> end) {
  const Deadline until = client_.usual_deadline();
  TRY(h, held(lease, "detach", until));
  if (!h) return Renewal{is_gone()};
  TRY(fresh, client_.grant("detach", ttl, until));
  Record record;
  const auto then = [&](const KeyValues& mine) -> Result<std::optional<Parts>> {
    if (mine.empty()) return fail(malformed_reply("detach", where()));
    record = Record::parse(mine.front().value).value_or(h->record);
    if (mine.front().lease == fresh.id) return std::nullopt;  // an earlier try has done it
    record.ttl = ttl;
    record.lock_delay = {};
    record.granted = h->record.granted;
    Parts operations = {put(h->key, record.text(), fresh.id)};
    if (end && traits_.keeps_last_run) add_last_run(operations, lease, *h, *end);
    return operations;
  };
  TRY(done, change("detach", created(h->key, revision(*h)), h->key, until, then));
  Lease left = kept(lease, *h, fresh, ttl);
  left.attached = false;
  let_go(lease);
  if (!done) return Renewal{is_gone()};
  return Renewal{Kept{std::move(left), record.revoked}};
}

// Deletes the key by its create revision, so a late or repeated release never ends another grant.
// It does not revoke the lease: the key may have a newer lease than the last known one, and a lease
// without a key ends by itself.
Result<Released> QueueBackend::release(const Lease& lease, std::optional<RunEnd> end) {
  const Deadline until = client_.usual_deadline();
  TRY(h, held(lease, "release", until));
  if (!h) return unanswered_.answered(lease, false);
  Parts then = {remove(h->key)};
  if (end && traits_.keeps_last_run) add_last_run(then, lease, *h, *end);
  auto gone = client_.txn("release",
                          transaction({created(h->key, revision(*h))}, std::move(then), {}), until);
  if (!gone) {
    if (may_be_done(gone.error())) unanswered_.add(lease);
    return fail(std::move(gone.error()));
  }
  let_go(lease);
  return unanswered_.answered(lease, gone->succeeded, gone->unclear);
}

void QueueBackend::add_last_run(Parts& operations, const Lease& lease, const Held& h,
                                const RunEnd& end) const {
  const std::string name = name_of(lease.key), key = last_key(name);
  LastRun last{h.token, client_.store_now(), end, h.record.granted, h.record.who};
  last.ended = std::max(last.ended, last.started);
  // The text begins with the token in 20 digits, so texts sort by token. The text of a newer grant
  // stays. A text that does not begin with a digit is replaced.
  const std::string text =
      fmt::format("{:020} {} {}", h.token,
                  h.record.key.empty() ? "-" : percent_encode(h.record.key), last.text(' '));
  Parts newer = {value(key, "GREATER", fmt::format("{:020}~", h.token)), value(key, "LESS", ":")};
  operations.push_back(nested(transaction(std::move(newer), {}, {put(key, text)})));
}

// Watches our own key. The watch also reports changes since the last reply. This function does not
// wait. If the watch gets no reply, it wakes nobody, and the next renewal begins another watch.
void QueueBackend::watch_own(Held& h) {
  h.watch.emplace(client_.watch(h.key, "", h.seen + 1, true));
  receive(h);
}

void QueueBackend::receive(Held& h) {
  while (h.watch) {
    const WatchLine line = h.watch->next();
    for (const WatchLine::Event& e : line.events) {
      const auto record = Record::parse(e.kv.value);
      if (!e.deleted && (!record || !record->revoked || h.record.revoked)) continue;
      h.record.revoked = !e.deleted;
      h.alarm = true;
      ++wakeups_;
    }
    if (line.over) h.watch.reset();
    else if (line.events.empty()) return await_watch(h);
  }
}

void QueueBackend::await_watch(const Held& h) {
  add_to(alarm_.get(), h.watch->fd(), h.watch->events());
  set_timer(h.timer.get(), h.watch->poll_until());
}

// Checks all grants, because all of them share one descriptor.
bool QueueBackend::alarmed(const Lease& lease) {
  for (auto& [id, h] : held_) {
    std::uint64_t ticks = 0;
    const bool due = ::read(h.timer.get(), &ticks, sizeof ticks) == sizeof ticks;
    if (h.watch) receive(h);
    else if (due) watch_own(h);
  }
  const auto own = held_.find({lease.key.text(), lease.owner});
  return own == held_.end() || std::exchange(own->second.alarm, false);
}

Result<Contenders> QueueBackend::read(std::string_view what, const Key& key, Deadline until) {
  TRY(answer, client_.read(what, {list(places(key))}, until));
  return contenders_of(answer.range(0), places(key));
}

Result<Contenders> QueueBackend::contenders_of(const KeyValues& found,
                                               std::string_view prefix) const {
  Contenders all = contenders(found, prefix);
  for (const Contender& c : all)
    if (const auto layout = newer_layout(c.kv.value))
      return fail(newer_record("key " + dlock::quoted(c.kv.key), where(), *layout));
  return all;
}

}  // namespace dlock::etcd
