// SPDX-License-Identifier: Apache-2.0
#include "store/several.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include "core/text.hpp"
#include "store/wrapped.hpp"
#include "util/fd.hpp"

namespace dlock {
namespace {

class Several final : public Wrapped {
 public:
  Several(std::unique_ptr<Backend> inner, std::vector<Key> keys, NextRenewal next_renewal)
      : Wrapped(std::move(inner)),
        next_renewal_(std::move(next_renewal)),
        keys_(std::move(keys)),
        order_(keys_) {
    std::ranges::sort(order_);
  }

  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease& whole, Duration ttl) override;
  Result<Renewal> detach(const Lease&, Duration ttl, std::optional<RunEnd>) override;
  bool alarmed(const Lease&) override;
  Result<Released> release(const Lease&, std::optional<RunEnd> end) override {
    return release_all(end);
  }
  // Inspects the key for which this Backend waits now, so that people see the holder that blocks
  // the wait.
  Result<std::optional<KeyView>> inspect(const Key& key) override {
    return inner_->inspect(taken_.size() < order_.size() ? order_[taken_.size()] : key);
  }
  Result<RunStarts> starts(const Key&) override;
  Result<UpdateResult> note_start(const Lease&, const RunStartUpdate&) override;

 private:
  friend class SeveralWaiter;

  struct Taken {
    Lease lease;
    int hold = -1;  // owned by the inner Backend
    Fd alarm;
    Deadline renew_at = no_deadline;
    enum class Release { not_asked, unknown, answered } release = Release::not_asked;
  };

  const Lease& lease_of(const Key&) const;
  Lease whole() const;
  Result<Released> release_all(std::optional<RunEnd> end = std::nullopt);
  bool forget();  // drops all state; returns whether a released key was no longer held
  Result<void> settle();
  template <class Call>
  Result<Renewal> each(Call call);

  const NextRenewal next_renewal_;
  const std::vector<Key> keys_;
  std::vector<Key> order_;
  std::vector<Taken> taken_;  // the held keys, in the order of order_
  std::vector<Lease> owed_;   // leases of an earlier attempt, whose release was not confirmed
  bool missed_ = false;       // a released key was no longer held
  std::optional<RunStart> newest_start_;  // what starts() returned: the newest of read_starts_
  std::map<std::string, std::optional<RunStart>> read_starts_;  // by key
  Fd alarms_;
};

class SeveralWaiter final : public Waiter {
 public:
  SeveralWaiter(Several& all, const Request& request) : all_(all), request_(request) {}
  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  Result<std::optional<Waiting>> renew_taken();
  Result<Progress> give_up_all(Waiting lost);
  tl::unexpected<Error> no_descriptor(const char* what, int error);
  void release_taken();
  Result<Progress> complete();

  Several& all_;
  Request request_;  // with the owner of this attempt
  std::unique_ptr<Waiter> waiter_;
};

Result<std::unique_ptr<Waiter>> Several::enqueue(const Request& r) {
  (void)forget();
  return std::make_unique<SeveralWaiter>(*this, r);
}

const Lease& Several::lease_of(const Key& key) const {
  return std::ranges::find_if(taken_, [&](const Taken& t) { return t.lease.key == key; })->lease;
}

Lease Several::whole() const {
  Lease lease = lease_of(keys_.front());
  for (const Taken& t : taken_) lease.deadline = std::min(lease.deadline, t.lease.deadline);
  return lease;
}

// If one key is lost, the lock on all keys is lost, even if the state of other keys is unknown.
template <class Call>
Result<Renewal> Several::each(Call call) {
  std::optional<Error> unknown;
  bool revoked = false;
  for (Taken& t : taken_) {
    auto answer = call(t.lease);
    if (!answer) {
      unknown = answer.error();
    } else if (const Lost* lost = std::get_if<Lost>(&*answer)) {
      // Never release a lost key: another owner may hold it. The other keys are still ours.
      t.release = Taken::Release::answered;
      return Renewal{Lost{fmt::format("{}: {}", printable(t.lease.key.text()), lost->why)}};
    } else {
      t.lease = std::get<Kept>(*answer).lease;
      revoked |= std::get<Kept>(*answer).revoked;
    }
  }
  if (unknown) return fail(*unknown);
  return Renewal{Kept{whole(), revoked}};
}

Result<Renewal> Several::renew(const Lease& whole, Duration ttl) {
  // A renewal also reads the event that made the alarm of its key readable.
  return each([&](Lease l) {
    l.ended = whole.ended;
    return inner_->renew(l, ttl);
  });
}

Result<Renewal> Several::detach(const Lease&, Duration ttl, std::optional<RunEnd> end) {
  return each([&](const Lease& l) { return inner_->detach(l, ttl, end); });
}

bool Several::alarmed(const Lease&) {
  bool any = false;
  for (const Taken& t : taken_) any |= inner_->alarmed(t.lease);
  return any;
}

// Releases every key once. If a key gets no reply, the caller calls release_all() again. The second
// call must skip the keys that got a reply, because the store would now reply that they are not
// held. If a key had no reply and is not held at the second call, it counts as released.
Result<Released> Several::release_all(std::optional<RunEnd> end) {
  using Release = Taken::Release;
  std::optional<Error> unknown;
  for (auto t = taken_.rbegin(); t != taken_.rend(); ++t) {
    if (t->release == Release::answered) continue;
    const auto answer = inner_->release(t->lease, end);
    if (!answer) unknown = answer.error();
    else missed_ |= *answer == Released::was_not_held && t->release == Release::not_asked;
    if (answer) t->release = Release::answered;
    else if (answer.error().code != Errc::unavailable) t->release = Release::unknown;
  }
  if (unknown) return fail(*unknown);
  return forget() ? Released::was_not_held : Released::yes;
}

bool Several::forget() {
  for (Taken& t : taken_)
    if (t.release != Taken::Release::answered) owed_.push_back(std::move(t.lease));
  taken_.clear();
  alarms_.reset();
  return std::exchange(missed_, false);
}

// Releases the keys of an earlier attempt. A key whose release is not confirmed would block our own
// new attempt until its ttl is over. After an Error: call it again.
Result<void> Several::settle() {
  for (; !owed_.empty(); owed_.pop_back()) {
    const Lease& lease = owed_.back();
    const auto answer = inner_->release(lease);
    if (!answer && retryable(answer.error().code) && Clock::now() < lease.deadline)
      return fail(answer.error());
  }
  return {};
}

Result<RunStarts> Several::starts(const Key&) {
  RunStarts newest;
  for (const Key& key : keys_) {
    const auto s = inner_->starts(key);
    if (!s) return s;
    newest.now = std::max(newest.now, s->now);
    if (s->last && (!newest.last || s->last->at > newest.last->at)) {
      newest.last = s->last;
      newest.key = key.text();
    }
    read_starts_[key.text()] = s->last;
  }
  newest_start_ = newest.last;
  return newest;
}

// Each key has a record of its own; the newest record represents all keys. If the store refuses to
// record a new start for one key, the keys after that key get no record. If it refuses a withdrawal
// for one key, the records of the other keys are changed all the same.
Result<UpdateResult> Several::note_start(const Lease&, const RunStartUpdate& change) {
  const bool forth = change.was == newest_start_;
  UpdateResult all = UpdateResult::yes;
  for (const Taken& t : taken_) {
    const auto own = [&](const std::optional<RunStart>& s) {
      return s == newest_start_ ? read_starts_[t.lease.key.text()] : s;
    };
    const auto done = inner_->note_start(t.lease, {own(change.was), own(change.is)});
    if (!done) return done;
    if (*done != UpdateResult::yes) all = *done;
    if (forth && all != UpdateResult::yes) break;
  }
  return all;
}

// Renews the held keys that are due. nullopt: no key is lost. Otherwise the result says why a key
// is lost.
Result<std::optional<Waiting>> SeveralWaiter::renew_taken() {
  const auto is_lost = [](std::string why, Deadline sent_at) {
    return std::optional{Waiting{.holder = {}, .why = std::move(why), .sent_at = sent_at}};
  };
  for (Several::Taken& t : all_.taken_) {
    const Deadline now = Clock::now();
    if (now < t.renew_at) continue;
    auto answer = all_.inner_->renew(t.lease, request_.ttl);
    if (!answer && now < t.lease.deadline) return fail(answer.error());
    if (!answer) return is_lost(fmt::format("{} ran out", printable(t.lease.key.text())), {});
    if (const Lost* lost = std::get_if<Lost>(&*answer))
      return is_lost(fmt::format("{} was lost: {}", printable(t.lease.key.text()), lost->why), now);
    t.lease = std::get<Kept>(*answer).lease;
    t.renew_at = all_.next_renewal_(t.lease.deadline, now);
  }
  return std::optional<Waiting>{};
}

// Releases all keys. The next attempt has a new owner, because a release or cancel may arrive late,
// and would end the next grant of the same owner.
void SeveralWaiter::release_taken() {
  (void)all_.release_all();
  (void)all_.forget();
  request_.owner = Owner::random();
}

tl::unexpected<Error> SeveralWaiter::no_descriptor(const char* what, int why) {
  release_taken();
  return fail(Errc::unavailable, "{} of several keys: {}", what, ::strerrordesc_np(why));
}

Result<Progress> SeveralWaiter::give_up_all(Waiting lost) {
  if (waiter_) (void)waiter_->cancel();
  waiter_.reset();
  release_taken();
  if (!request_.wait) return Progress{Busy{std::nullopt, std::move(lost.why), lost.sent_at}};
  lost.why += "; all keys are requested again";
  return Progress{std::move(lost)};
}

// Refuses a lock if its alarm cannot be watched.
Result<Progress> SeveralWaiter::complete() {
  Granted all{.lease = all_.whole()};
  for (const Key& key : all_.keys_)
    if (key != all_.keys_.front()) all.more_leases.push_back(all_.lease_of(key));
  Fd alarms;
  for (const Several::Taken& t : all_.taken_) {
    if (t.hold >= 0) all.more_holds.push_back(t.hold);
    if (!t.alarm) continue;
    if (!alarms) alarms.reset(::epoll_create1(EPOLL_CLOEXEC));
    epoll_event e{EPOLLIN, {}};
    if (!alarms || ::epoll_ctl(alarms.get(), EPOLL_CTL_ADD, t.alarm.get(), &e) != 0)
      return no_descriptor("cannot watch the locks", errno);
  }
  all_.alarms_ = std::move(alarms);
  all.alarm_fd = all_.alarms_.get();
  return Progress{std::move(all)};
}

Result<Progress> SeveralWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  for (;;) {
    TRY_VOID(all_.settle());
    TRY(lost, renew_taken());
    if (lost) return give_up_all(std::move(*lost));
    if (all_.taken_.size() == all_.order_.size()) return complete();
    if (!waiter_) {
      Request r = request_;
      r.key = all_.order_[all_.taken_.size()];
      TRY(queued, all_.inner_->enqueue(r));
      waiter_ = std::move(queued);
    }
    Deadline until = end;
    for (const Several::Taken& t : all_.taken_) until = std::min(until, t.renew_at);
    const auto left = std::chrono::duration_cast<Duration>(until - Clock::now());
    auto answer = waiter_->poll(std::max(left, Duration{}));
    if (!answer) return answer;
    if (auto* granted = std::get_if<Granted>(&*answer)) {
      const int alarm = granted->alarm_fd;
      Fd copy(alarm < 0 ? -1 : ::fcntl(alarm, F_DUPFD_CLOEXEC, 3));
      const int error = alarm < 0 || copy ? 0 : errno;
      waiter_.reset();
      const Lease& lease = granted->lease;
      all_.taken_.push_back({lease, granted->hold_fd, std::move(copy),
                             all_.next_renewal_(lease.deadline, Clock::now())});
      if (error) return no_descriptor("cannot keep the locks", error);
      continue;
    }
    const std::string& key = all_.order_[all_.taken_.size()].text();
    if (auto* waiting = std::get_if<Waiting>(&*answer)) waiting->key = key;
    if (auto* busy = std::get_if<Busy>(&*answer)) {
      busy->key = key;
      waiter_.reset();
      release_taken();
    }
    return answer;
  }
}

Result<void> SeveralWaiter::cancel() {
  Result<void> left;
  if (waiter_) left = waiter_->cancel();
  const auto released = all_.release_all();
  TRY_VOID(left);
  TRY_VOID(released);
  return {};
}

}  // namespace

std::unique_ptr<Backend> several(std::unique_ptr<Backend> inner, std::vector<Key> keys,
                                 NextRenewal next_renewal) {
  return std::make_unique<Several>(std::move(inner), std::move(keys), std::move(next_renewal));
}

}  // namespace dlock
