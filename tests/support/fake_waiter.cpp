// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <stdexcept>
#include "store/key_view.hpp"
#include "support/fake_impl.hpp"

namespace dlock::fake {

void FakeWaiter::make_bell(Entry& e, std::uint64_t ticket) {
  if (ticket_ == ticket) return;
  ticket_ = ticket;
  bell_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  e.bells[ticket] = Fd(::fcntl(bell_.get(), F_DUPFD_CLOEXEC, 3));
}

// One try: grants, refuses, or says until when to wait.
FakeWaiter::Step FakeWaiter::ask() {
  const Deadline sent = Clock::now();
  const Micros now = now_us();
  Table table;
  Entry& e = backend_.entry(table, request_.key);
  if (e.spent.count(request_.owner) > 0) throw std::logic_error("fake: an owner came back");
  LockState::Acquisition ask;
  ask.owner = request_.owner;
  ask.mode = request_.mode;
  ask.limit = request_.limit;
  ask.delay = request_.lock_delay.count();
  ask.token_floor = static_cast<FencingToken>(wall_micros());
  ask.wait = request_.wait;
  ask.meta = request_.identity.encode();
  ask.ttl = request_.ttl.count();
  ask.patience = backend_.faults_.patience.count();
  const auto answer = e.state.acquire(ask, now);
  Step step;
  if (const auto* g = std::get_if<LockState::Granted>(&answer)) {
    step.progress =
        Granted{{request_.key, request_.owner, request_.mode, g->token, g->slot,
                 lease_end(unknown_since_.value_or(sent), request_.ttl), request_.attached}};
    e.settle(now, true);
    return step;
  }
  std::optional<HolderView> holder;
  if (!e.state.holders.empty()) holder = view(e.state.holders.front(), now);
  if (std::holds_alternative<LockState::Busy>(answer)) {
    step.progress = Busy{std::move(holder), {}, sent};
  } else {
    const auto& w = std::get<LockState::Waiting>(answer);
    make_bell(e, e.state.waiters[w.rank].ticket);
    step.progress = Waiting{w.rank, std::move(holder), {}, sent};
    step.wake_at = later(sent, backend_.faults_.patience / 3);  // before its patience ends
    if (w.rank == 0 && w.free_at != never)
      step.wake_at = std::min(step.wake_at, later(sent, Duration{w.free_at - now}));
  }
  e.settle(now, false);
  return step;
}

FakeWaiter::Step FakeWaiter::held_back() const {
  Step step;
  const Deadline now = Clock::now();
  step.progress = Waiting{.holder = {}, .sent_at = now};
  if (!request_.wait) step.progress = Busy{.holder = {}, .sent_at = now};
  step.wake_at = *closed_until_;
  return step;
}

// True: interrupted.
bool FakeWaiter::sleep_until(Deadline until) {
  std::array<pollfd, 2> fds{{{backend_.interrupt_fd_, POLLIN, 0}, {bell_.get(), POLLIN, 0}}};
  const auto left = std::max(std::chrono::nanoseconds::zero(), until - Clock::now());
  const timespec t{static_cast<time_t>(left.count() / 1'000'000'000),
                   static_cast<long>(left.count() % 1'000'000'000)};
  const bool woken =
      ::ppoll(fds.data(), fds.size(), until == no_deadline ? nullptr : &t, nullptr) > 0;
  const bool interrupted = woken && fds[0].revents != 0;
  if (woken && !interrupted) ++backend_.counters_.wakeups;
  std::uint64_t rings = 0;
  if (bell_) (void)!::read(bell_.get(), &rings, sizeof rings);
  return interrupted;
}

Result<Progress> FakeWaiter::poll(Duration slice) {
  if (const auto begun = backend_.begin(); !begun) return fail(begun.error());
  if (const auto& after = backend_.faults_.hang_wait; after && polls_++ >= *after) hang();
  const Deadline end = later(Clock::now(), slice);
  if (!closed_until_) closed_until_ = later(Clock::now(), backend_.faults_.grant_after);
  for (;;) {
    const Deadline sent = Clock::now();
    Step step = sent < *closed_until_ ? held_back() : ask();
    if (std::holds_alternative<Granted>(step.progress) && backend_.lose(RequestKind::acquire)) {
      unknown_since_ = sent;
      return fail(lost_reply("acquire"));
    }
    if (!std::holds_alternative<Waiting>(step.progress) || Clock::now() >= end)
      return std::move(step.progress);
    if (sleep_until(std::min(end, step.wake_at))) return std::move(step.progress);
  }
}

Result<void> FakeWaiter::cancel() {
  if (const auto begun = backend_.begin(); !begun) return fail(begun.error());
  const Micros now = now_us();
  Table table;
  Entry* const known_one = backend_.known(table, request_.key);
  if (!known_one) return {};
  Entry& e = *known_one;
  e.spent.insert(request_.owner);
  e.state.cancel(request_.owner);
  e.state.release(request_.owner, now);
  e.settle(now, false);
  return {};
}

}  // namespace dlock::fake
