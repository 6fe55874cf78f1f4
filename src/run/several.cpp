// SPDX-License-Identifier: Apache-2.0
#include "run/several.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include "run/wrapped.hpp"
#include "util/fd.hpp"

namespace dlock::run {
namespace {

// One descriptor that keeps others open as long as anybody has it: they lie in the receive queue of a socket. So what must hold all of these
// locks, the guard, still holds one descriptor.
Result<Fd> bag_of(const std::vector<int>& fds) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
    return fail(Errc::unavailable, fmt::format("no socket: {}", ::strerrordesc_np(errno)));
  Fd bag(pair[0]);
  const Fd in(pair[1]);
  for (const int fd : fds) {
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
    msghdr m{};
    m.msg_iov = &data;
    m.msg_iovlen = 1;
    m.msg_control = control;
    m.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
    if (::sendmsg(in.get(), &m, MSG_NOSIGNAL) < 0)
      return fail(Errc::unavailable,
                  fmt::format("the descriptors of the locks cannot be kept together: {}", ::strerrordesc_np(errno)));
  }
  return bag;
}

class Several final : public Wrapped {
 public:
  Several(std::unique_ptr<Backend> inner, std::vector<Key> keys)
      : Wrapped(std::move(inner)), keys_(std::move(keys)), order_(keys_) {
    std::sort(order_.begin(), order_.end());
  }

  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease&, Duration ttl) override;
  Result<Renewal> detach(const Lease&, Duration ttl) override;
  Result<Released> release(const Lease&) override;
  Result<Starts> starts(const Key&) override;
  Result<Validity> note_start(const Lease&, std::optional<std::int64_t> at, Duration keep) override;

 private:
  friend class SeveralWaiter;

  struct Taken {
    Lease lease;
    Fd hold, alarm;
    Deadline renew_at = no_deadline;
    enum class Release { not_asked, unknown, answered } release = Release::not_asked;
  };

  Lease whole() const;
  std::vector<Lease> others() const;
  Result<Released> release_all();
  bool forget();  // nothing is taken; was one of those that were released not held any more?
  template <class Ask>
  Result<Renewal> each(Ask ask);

  const std::vector<Key> keys_;
  std::vector<Key> order_;
  std::vector<Taken> taken_;  // a beginning of order_
  bool missed_ = false;       // one of those that were released was not held any more
  Fd bag_, alarms_;
};

class SeveralWaiter final : public Waiter {
 public:
  SeveralWaiter(Several& all, const Request& request) : all_(all), request_(request) {}
  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  Result<std::optional<std::string>> renew_taken();
  Result<Progress> give_up_all(const std::string& why);
  tl::unexpected<Error> no_descriptor(const char* what);
  void release_taken();
  Result<Progress> complete();

  Several& all_;
  const Request request_;
  std::unique_ptr<Waiter> place_;
};

Result<std::unique_ptr<Waiter>> Several::enqueue(const Request& r) {
  (void)forget();  // keys whose release was unknown: if they are still held, their store knows the owner again
  return std::make_unique<SeveralWaiter>(*this, r);
}

Lease Several::whole() const {
  Lease lease = std::find_if(taken_.begin(), taken_.end(), [&](const Taken& t) { return t.lease.key == keys_.front(); })->lease;
  for (const Taken& t : taken_) lease.deadline = std::min(lease.deadline, t.lease.deadline);
  return lease;
}

std::vector<Lease> Several::others() const {
  std::vector<Lease> more;
  for (auto key = keys_.begin() + 1; key != keys_.end(); ++key)
    more.push_back(std::find_if(taken_.begin(), taken_.end(), [&](const Taken& t) { return t.lease.key == *key; })->lease);
  return more;
}

// Lost is the stronger answer: one key that is lost ends them all, whatever is unknown about the others.
template <class Ask>
Result<Renewal> Several::each(Ask ask) {
  std::optional<Error> unknown;
  bool revoked = false;
  for (Taken& t : taken_) {
    auto answer = ask(t.lease);
    if (!answer) {
      unknown = answer.error();
    } else if (const Lost* lost = std::get_if<Lost>(&*answer)) {
      return Renewal{Lost{fmt::format("{}: {}", printable(t.lease.key.text()), lost->why)}};
    } else {
      t.lease = std::get<Kept>(*answer).lease;
      revoked |= std::get<Kept>(*answer).revoked;
    }
  }
  if (unknown) return fail(*unknown);
  return Renewal{Kept{whole(), revoked}};
}

Result<Renewal> Several::renew(const Lease&, Duration ttl) {
  return each([&](const Lease& l) { return inner_->renew(l, ttl); });  // reads what made an alarm ring
}

Result<Renewal> Several::detach(const Lease&, Duration ttl) {
  return each([&](const Lease& l) { return inner_->detach(l, ttl); });
}

Result<Released> Several::release(const Lease&) { return release_all(); }

// Each key is asked about until it has answered, and no more: a call that is repeated because one of them was unknown must not ask again for
// those that were given back, or it would hear that they are not held. And if the one that was unknown is not held the second time, it is
// as given back as can be.
Result<Released> Several::release_all() {
  using Release = Taken::Release;
  std::optional<Error> unknown;
  for (auto t = taken_.rbegin(); t != taken_.rend(); ++t) {
    if (t->release == Release::answered) continue;
    const auto answer = inner_->release(t->lease);
    if (!answer) unknown = answer.error();
    else missed_ |= *answer == Released::was_not_held && t->release == Release::not_asked;
    if (answer) t->release = Release::answered;
    else if (answer.error().code != Errc::unavailable) t->release = Release::unknown;
  }
  if (unknown) return fail(*unknown);
  return forget() ? Released::was_not_held : Released::yes;
}

bool Several::forget() {
  taken_.clear();
  bag_.reset();
  alarms_.reset();
  return std::exchange(missed_, false);
}

Result<Starts> Several::starts(const Key&) {
  Starts newest;
  for (const Key& key : keys_) {
    const auto s = inner_->starts(key);
    if (!s) return s;
    newest.now = std::max(newest.now, s->now);
    if (s->last && (!newest.last || *s->last > *newest.last)) newest.last = s->last;
  }
  return newest;
}

Result<Validity> Several::note_start(const Lease&, std::optional<std::int64_t> at, Duration keep) {
  for (const Taken& t : taken_) {
    const auto done = inner_->note_start(t.lease, at, keep);
    if (!done || *done == Validity::stale) return done;
  }
  return Validity::valid;
}

// nullopt: all are kept. Text: one is lost.
Result<std::optional<std::string>> SeveralWaiter::renew_taken() {
  for (Several::Taken& t : all_.taken_) {
    const Deadline now = Clock::now();
    if (now < t.renew_at) continue;
    auto answer = all_.inner_->renew(t.lease, request_.ttl);
    if (!answer && now < t.lease.deadline) return fail(answer.error());
    if (!answer) return std::optional{fmt::format("{} ran out", printable(t.lease.key.text()))};
    if (const Lost* lost = std::get_if<Lost>(&*answer))
      return std::optional{fmt::format("{} was lost: {}", printable(t.lease.key.text()), lost->why)};
    t.lease = std::get<Kept>(*answer).lease;
    t.renew_at = later(now, request_.ttl / 4);
  }
  return std::optional<std::string>{};
}

// What cannot be released for certain ends by its ttl, or is known again by its owner when it is taken anew.
void SeveralWaiter::release_taken() {
  (void)all_.release_all();
  (void)all_.forget();
}

tl::unexpected<Error> SeveralWaiter::no_descriptor(const char* what) {
  const int why = errno;
  release_taken();
  return fail(Errc::unavailable, fmt::format("{} of several keys: {}", what, ::strerrordesc_np(why)));
}

Result<Progress> SeveralWaiter::give_up_all(const std::string& why) {
  if (place_) (void)place_->cancel();
  place_.reset();
  release_taken();
  if (request_.wait) return Progress{Waiting{0, std::nullopt, why + "; all of the keys are taken anew"}};
  return Progress{Busy{std::nullopt, why}};
}

// A lock whose alarm nobody hears, or whose descriptor the guard does not get, is not granted.
Result<Progress> SeveralWaiter::complete() {
  std::vector<int> holds;
  Fd alarms;
  for (const Several::Taken& t : all_.taken_) {
    if (t.hold) holds.push_back(t.hold.get());
    if (!t.alarm) continue;
    if (!alarms) alarms.reset(::epoll_create1(EPOLL_CLOEXEC));
    epoll_event e{EPOLLIN, {}};
    if (!alarms || ::epoll_ctl(alarms.get(), EPOLL_CTL_ADD, t.alarm.get(), &e) != 0)
      return no_descriptor("cannot watch the locks");
  }
  if (!holds.empty()) {
    auto bag = bag_of(holds);
    if (!bag) {
      release_taken();
      return fail(bag.error());
    }
    all_.bag_ = std::move(*bag);
    for (Several::Taken& t : all_.taken_) t.hold.reset();
  }
  all_.alarms_ = std::move(alarms);
  return Progress{Granted{all_.whole(), all_.bag_.get(), all_.alarms_.get(), all_.others()}};
}

Result<Progress> SeveralWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  for (;;) {
    const auto lost = renew_taken();
    if (!lost) return fail(lost.error());
    if (*lost) return give_up_all(**lost);
    if (all_.taken_.size() == all_.order_.size()) return complete();
    if (!place_) {
      Request r = request_;
      r.key = all_.order_[all_.taken_.size()];
      auto queued = all_.inner_->enqueue(r);
      if (!queued) return fail(queued.error());
      place_ = std::move(*queued);
    }
    Deadline until = end;
    for (const Several::Taken& t : all_.taken_) until = std::min(until, t.renew_at);
    auto answer = place_->poll(std::max<Duration>(std::chrono::duration_cast<Duration>(until - Clock::now()), Duration{}));
    if (!answer) return answer;
    if (auto* granted = std::get_if<Granted>(&*answer)) {
      const auto copy = [](int fd) { return Fd(fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, 3)); };
      Several::Taken t{granted->lease, copy(granted->hold_fd), copy(granted->alarm_fd), later(Clock::now(), request_.ttl / 4)};
      const bool all_copied = (granted->hold_fd < 0 || t.hold) && (granted->alarm_fd < 0 || t.alarm);
      const int why = errno;
      place_.reset();
      all_.taken_.push_back(std::move(t));
      if (all_copied) continue;
      errno = why;
      return no_descriptor("cannot keep the locks");
    }
    if (auto* busy = std::get_if<Busy>(&*answer)) {
      std::string why = busy->why.empty() ? "" : "; " + busy->why;
      if (all_.keys_.front() != all_.order_[all_.taken_.size()])
        why = fmt::format("the key in the way is {}{}", printable(all_.order_[all_.taken_.size()].text()), why);
      place_.reset();
      release_taken();
      return Progress{Busy{std::move(busy->holder), std::move(why)}};
    }
    return answer;
  }
}

Result<void> SeveralWaiter::cancel() {
  Result<void> left;
  if (place_) left = place_->cancel();
  const auto released = all_.release_all();
  if (!left) return left;
  if (!released) return fail(released.error());
  return {};
}

}  // namespace

std::unique_ptr<Backend> several(std::unique_ptr<Backend> inner, std::vector<Key> keys) {
  return std::make_unique<Several>(std::move(inner), std::move(keys));
}

}  // namespace dlock::run
