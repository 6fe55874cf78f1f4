// SPDX-License-Identifier: Apache-2.0
#include "etcd/queue/queue_waiter.hpp"
#include <algorithm>
#include <utility>

namespace dlock::etcd {

Result<Progress> QueueWaiter::poll(Duration slice) {
  const Deadline began = Clock::now(), end = later(began, slice);
  sent_at_ = {};
  if (granted_) {  // the lock was granted by an earlier call, so renew the lease
    TRY(kept, backend_.renew(Lease{.key = request_.key, .owner = request_.owner}, request_.ttl));
    if (const auto* k = std::get_if<Kept>(&kept))
      return Progress{Granted{k->lease, -1, backend_.alarm_.get()}};
    granted_ = false;
    forget_place();
  }
  for (bool was_read = false;;) {
    Deadline until = backend_.client_.usual_deadline();
    if (was_read && read_again_) {  // a claim was refused, because others changed the queue
      const Deadline now = Clock::now();
      if (request_.wait ? now >= end : now >= later(began, backend_.client_.options().op_timeout))
        return request_.wait ? waiting() : give_up("its permits change all the time");
      TRY_VOID(keep_place(until));
    }
    const bool fresh = revision_ == 0;
    if (fresh || std::exchange(read_again_, false) || (slice <= Duration{} && !was_read)) {
      TRY(done, fresh ? enter(until) : read_queue(Scope::all, false, until));
      if (done) return std::move(*done);
      was_read = true;
      continue;
    }
    if (!request_.wait) return give_up("");
    if (Clock::now() >= end) return waiting();
    const bool woken = wait_for_watch({end, backend_.client_.options().interrupt_fd});
    until = backend_.client_.usual_deadline();  // the wait must not use up the time of this request
    const bool touch = Clock::now() >= touch_;
    if (!woken && !touch) return waiting();
    if (woken) ++backend_.wakeups_;
    read_again_ = true;  // in case keep_place() or read_queue() fails
    TRY_VOID(keep_place(until));
    // When we are woken, it is usually our turn. If the grant then needs a new lease as proof, get
    // that lease before the queue is read, which saves reading the queue twice.
    const bool with_proof = !touch && !proven();
    TRY(done, read_queue(one_decides() ? Scope::newest : Scope::all, with_proof, until));
    read_again_ = false;
    if (done) return std::move(*done);
  }
}

Result<Progress> QueueWaiter::give_up(std::string why) {
  auto holder = holder_;
  TRY_VOID(cancel());
  return Progress{Busy{std::move(holder), std::move(why), sent_at_}};
}

// Keeps the place in the queue alive, if the time touch_ has come.
Result<void> QueueWaiter::keep_place(Deadline until) {
  if (Clock::now() < touch_) return {};
  TRY_VOID(backend_.client_.keep_alive(attached_, until));
  touch_ = later(Clock::now(), request_.ttl / 3);
  return {};
}

// A watch that fails wakes nobody. So after a failure this function makes poll() read the queue and
// begin another watch, but not before one second has passed since the failed watch began.
bool QueueWaiter::wait_for_watch(const Wait& wait) {
  for (;;) {
    const WatchLine line = watch_ ? watch_->next() : WatchLine{};
    if (!line.events.empty()) return true;
    if (line.over) {
      watch_.reset();
      touch_ = std::min(touch_, later(watched_from_, std::chrono::seconds{1}));
    }
    const Deadline until = std::min(wait.until, touch_);
    if (Clock::now() >= until || wait.interrupted()) return false;
    if (watch_)
      (void)wait_for(watch_->fd(), watch_->events(),
                     {std::min(until, watch_->poll_until()), wait.interrupt_fd});
    else (void)wait_for(-1, 0, {until, wait.interrupt_fd});
  }
}

bool QueueWaiter::proven() const noexcept {
  return lasts_ && lease_.id != 0 && lease_.id == attached_ &&
         later(Clock::now(), request_.ttl / 2) < lease_end(lease_.sent, request_.ttl);
}

void QueueWaiter::forget_place() {
  revision_ = 0;
  attached_ = 0;
  lease_ = {};
  watch_.reset();
  watched_.clear();
}

// Repeats each release of this lock that got no reply. If an enqueue got no reply, reads our key.
// If the enqueue did not make this key, revokes the lease of the enqueue.
Result<void> QueueWaiter::settle(Deadline until) {
  const std::vector<Lease> open = backend_.unanswered_.open();
  for (const Lease& lease : open)
    if (lease.key == request_.key) TRY_VOID(backend_.release(lease, std::nullopt));
  if (unanswered_.id == 0) return {};
  TRY(now, backend_.client_.read("acquire", {get(key_)}, until));
  if (now.range(0).empty() || now.range(0).front().lease != unanswered_.id) {
    TRY_VOID(backend_.client_.revoke("acquire", unanswered_.id, until));
  } else {
    lease_ = unanswered_;
  }
  unanswered_ = {};
  return {};
}

QueueWaiter::Step QueueWaiter::enter(Deadline until) {
  forget_place();
  TRY_VOID(settle(until));
  if (lease_.id == 0) {
    TRY(made, backend_.client_.grant("acquire", request_.ttl, until));
    lease_ = made;
  }
  lasts_ = request_.lock_delay <= Duration{};
  record_ = Record::of(request_);
  Record at_once = record_;
  at_once.granted = backend_.client_.store_now();
  if (at_once.mode == Mode::permit) at_once.slot = 0;
  unanswered_ = lease_;
  // If there is no other contender, this transaction grants the lock, and the record says so.
  const Parts enter_line = {put(key_, record_.text(), lease_.id)};
  const Deadline sent = Clock::now();
  TRY(answer,
      backend_.client_.txn(
          "acquire",
          transaction({none_below(prefix_)}, {put(key_, at_once.text(), lease_.id)},
                      {list(prefix_), nested(transaction({created(key_, 0)}, enter_line, {}))}),
          until, false));
  unanswered_ = {};
  sent_at_ = sent;
  if (answer.lease_missing) {
    forget_place();
    return fail(no_answer("acquire", backend_.where()));
  }
  if (answer.ranges.size() != (answer.succeeded ? 1 : 2))
    return fail(malformed_reply("acquire", backend_.where()));
  touch_ = later(Clock::now(), request_.ttl / 3);
  revision_ = answer.revision;
  attached_ = lease_.id;
  if (answer.succeeded) record_ = at_once;
  for (const KeyValue& kv : answer.range(0)) {
    // Our key exists: an earlier try made it, or another connection with our owner.
    if (kv.key != key_) continue;
    revision_ = kv.created;
    attached_ = kv.lease;
    record_ = Record::parse(kv.value).value_or(record_);
  }
  return judge(answer, answer.range(0), Scope::all, until);
}

QueueWaiter::Step QueueWaiter::read_queue(Scope whom, bool with_proof, Deadline until) {
  // a permit must also read the contenders after it, because they may have slots
  const bool all = request_.mode == Mode::permit;
  const auto read_us = list(prefix_, all ? 0 : revision_, whom == Scope::newest);
  Parts when = {created(key_, revision_)}, then = {read_us, get(key_)};
  NewLease fresh;
  if (with_proof) {
    TRY(made, backend_.client_.grant("acquire", request_.ttl + request_.lock_delay, until));
    fresh = made;
    when.push_back(leased(key_, attached_));
    then.insert(then.begin(), put_lease(key_, fresh.id));
  }
  const Deadline sent = Clock::now();
  TRY(answer,
      backend_.client_.txn(
          "acquire", transaction(std::move(when), std::move(then), {read_us, get(key_)}), until));
  if (answer.lease_missing) return fail(no_answer("acquire", backend_.where()));
  sent_at_ = sent;
  const std::size_t first = answer.succeeded && with_proof ? 1 : 0;
  const KeyValues& mine = answer.range(first + 1);
  if (mine.empty() || mine.front().created != revision_) {
    forget_place();  // queue again, at the end
    return go_on();
  }
  attached_ = mine.front().lease;
  if (fresh.id != 0 && attached_ == fresh.id) {
    lease_ = fresh;
    lasts_ = true;
  }
  record_ = Record::parse(mine.front().value).value_or(record_);
  return judge(answer, answer.range(first), whom, until);
}

QueueWaiter::Step QueueWaiter::judge(const TxnAnswer& answer, const KeyValues& found, Scope whom,
                                     Deadline until) {
  last_read_ = answer.revision;
  TRY(all, backend_.contenders_of(found, prefix_));
  before_ = std::move(all);
  free_slot_ = lowest_free_slot(before_);
  std::erase_if(before_, [&](const Contender& c) { return c.kv.created >= revision_; });
  // We asked for the newest key below our prefix, and got a key of another lock, whose name begins
  // with ours. So the contender before us is still unknown.
  if (whom == Scope::newest && before_.empty() && !found.empty())
    return read_queue(Scope::all, false, until);
  if (whom == Scope::all) {
    ahead_ = 0;
    holder_.reset();
    for (std::size_t i = 0; i < before_.size(); ++i) {
      if (!holds(before_, i)) ++ahead_;
      else if (!holder_) holder_ = view_of(before_[i], backend_.client_.store_now());
    }
  }
  verdict_ = decide(before_, request_.mode, request_.limit);
  if (verdict_.what != Verdict::What::run) {
    if (request_.wait) watch();
    return go_on();
  }
  if (request_.mode == Mode::permit && !record_.slot) return claim(until);
  if (!proven()) return read_queue(whom, true, until);
  return std::optional{granted()};
}

// A permit holds once its record has a slot. The slot is written only if nothing below the prefix
// has changed since the list was read, so no two permits have the same slot.
QueueWaiter::Step QueueWaiter::claim(Deadline until) {
  TRY(fresh, backend_.client_.grant("acquire", request_.ttl + request_.lock_delay, until));
  Record mine = record_;
  mine.slot = free_slot_;
  mine.granted = backend_.client_.store_now();
  TRY(claimed, backend_.client_.txn(
                   "acquire",
                   transaction({created(key_, revision_), untouched_below(prefix_, last_read_)},
                               {put(key_, mine.text(), fresh.id)}, {}),
                   until));
  if (!claimed.succeeded) {
    read_again_ = true;
    return go_on();
  }
  record_ = mine;
  lease_ = fresh;
  lasts_ = true;
  attached_ = fresh.id;
  return std::optional{granted()};
}

Progress QueueWaiter::granted() {
  granted_ = true;
  watch_.reset();
  const Lease ours{.key = request_.key, .owner = request_.owner};
  if (record_.granted == 0) record_.granted = backend_.client_.store_now();
  const auto& h = backend_.keep(ours, {.token = static_cast<FencingToken>(revision_),
                                       .lease = attached_,
                                       .record = record_,
                                       .seen = last_read_});
  return Granted{QueueBackend::kept(ours, h, lease_, request_.ttl), -1, backend_.alarm_.get()};
}

void QueueWaiter::watch() {
  using What = Verdict::What;
  const bool room = verdict_.what == What::wait_room;
  const std::string& target = room ? prefix_ : verdict_.watch;
  if (backend_.client_.is_current(watch_) && watched_ == target) return;
  watch_.emplace(backend_.client_.watch(target, room ? end_of_prefix(prefix_) : "", last_read_ + 1,
                                        verdict_.what == What::wait_turn));
  watched_ = target;
  watched_from_ = Clock::now();
}

// If an enqueue may still arrive, revokes its lease, so that etcd refuses the enqueue. Deletes our
// key by its create revision.
Result<void> QueueWaiter::cancel() {
  const Deadline until = backend_.client_.usual_deadline();
  if (unanswered_.id != 0) {
    TRY_VOID(backend_.client_.revoke("leave", unanswered_.id, until));
    unanswered_ = {};
  }
  watch_.reset();
  if (revision_ == 0) return {};
  Lease mine{.key = request_.key, .owner = request_.owner};
  mine.token = static_cast<FencingToken>(revision_);
  mine.deadline = later(Clock::now(), request_.ttl);
  const auto left = backend_.client_.txn(
      "leave", transaction({created(key_, revision_)}, {remove(key_)}, {}), until);
  if (!left) {
    if (left.error().code != Errc::unavailable) backend_.unanswered_.add(mine);
    return fail(left.error());
  }
  backend_.let_go(mine);
  forget_place();
  return {};
}

}  // namespace dlock::etcd
