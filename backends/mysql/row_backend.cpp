// SPDX-License-Identifier: Apache-2.0
#include "mysql/row_backend.hpp"
#include <fmt/format.h>
#include <algorithm>

namespace dlock::mysql {
namespace {

// Not in step with the others who wait.
Duration pause(const Owner& owner, unsigned asked) noexcept {
  const Duration about = asked < 20 ? std::chrono::milliseconds{100} : std::chrono::milliseconds{500};
  return about * (768 + owner.bytes[asked % owner.bytes.size()]) / 1024;
}

}  // namespace

// Asks again and again: when the lock should end by itself, and meanwhile every 0.1 s, later every 0.5 s.
class RowWaiter final : public Waiter {
 public:
  RowWaiter(RowBackend& backend, const Request& request) : backend_(backend), request_(request) {}

  Result<Progress> poll(Duration slice) override {
    const Deadline end = later(Clock::now(), slice);
    for (bool first = true;; first = false) {
      // A slice of zero is one try; others keep the pace, however short they are.
      if (!(first && slice <= Duration{}) && Clock::now() < next_) {
        wait_for(-1, 0, {std::min(end, next_), backend_.client().options().interrupt_fd});
        if (Clock::now() < next_) return Progress{last_};
        ++backend_.wakeups_;
      }
      asked_ = true;
      auto tried = backend_.try_once(request_);
      if (!tried) return fail(std::move(tried.error()));
      if (tried->token) {
        Granted g{{request_.key, request_.owner}};
        g.lease.token = *tried->token;
        g.lease.deadline = lease_end(tried->sent, request_.ttl);
        return Progress{std::move(g)};
      }
      std::optional<HolderView> by;
      if (tried->seen.held) by = RowBackend::view(tried->seen);
      std::string why;
      for (const auto& n : backend_.notes(tried->seen)) why += (why.empty() ? "" : "; ") + n;
      if (!request_.wait) return Progress{Busy{std::move(by), std::move(why)}};
      last_ = {0, std::move(by), std::move(why)};
      next_ = Clock::now() + pause(request_.owner, tries_++);
      if (tried->seen.ours)
        next_ = std::min<Deadline>(next_, Clock::now() + Duration{std::max<Micros>(0, tried->seen.until - tried->seen.now)} +
                                              std::chrono::milliseconds{1});
      if (Clock::now() >= end) return Progress{last_};
    }
  }

  Result<void> cancel() override {
    if (!asked_) return {};
    const auto released = backend_.release({request_.key, request_.owner});
    if (!released) return fail(released.error());
    return {};
  }

 private:
  RowBackend& backend_;
  const Request request_;
  Deadline next_{};
  unsigned tries_ = 0;
  bool asked_ = false;
  Waiting last_;
};

Result<std::unique_ptr<Waiter>> RowBackend::enqueue(const Request& r) {
  if (auto ok = accept(r, 255); !ok) return fail(std::move(ok.error()));
  return std::make_unique<RowWaiter>(*this, r);
}

Result<RowBackend::Try> RowBackend::try_once(const Request& r) {
  const std::string name = name_of(r.key);
  std::optional<Deadline> unclear;
  auto tried = run<Try>([&](Connection& c) -> Result<Try> {
    const Deadline sent = Clock::now();
    auto t = try_over(c, name, r, client_.usual_deadline());
    if (!t && c.broken() && !unclear) unclear = sent;
    return t;
  });
  // An earlier request, whose answer got lost, may be what took it.
  if (tried && tried->token && unclear) tried->sent = std::min(tried->sent, *unclear);
  return tried;
}

Result<Renewal> RowBackend::renew(const Lease& lease, Duration ttl) {
  const std::string name = name_of(lease.key);
  Deadline sent{};
  auto token = run<std::optional<FencingToken>>([&](Connection& c) {
    sent = Clock::now();
    return renew_over(c, name, lease.owner, ttl, client_.usual_deadline());
  });
  if (!token) return fail(std::move(token.error()));
  if (!*token)
    return Renewal{Lost{"the database does not have it any more: its time was over, or somebody removed or replaced it"}};
  Lease kept{lease.key, lease.owner};
  kept.token = **token;
  kept.deadline = lease_end(sent, ttl);
  return Renewal{Kept{std::move(kept)}};
}

Result<Released> RowBackend::release(const Lease& lease) {
  const std::string name = name_of(lease.key);
  bool unclear = release_unanswered_ == lease.owner;
  auto done = run<bool>([&](Connection& c) -> Result<bool> {
    auto r = release_over(c, name, lease.owner, client_.usual_deadline());
    if (!r && c.remedy() == Remedy::create) return false;
    unclear |= !r && c.broken();
    return r;
  });
  if (!done) {
    if (unclear) release_unanswered_ = lease.owner;
    return fail(std::move(done.error()));
  }
  // Not there, though its time was not over: an earlier request of ours, whose answer got lost, has removed it.
  const bool by_us = unclear && Clock::now() < lease.deadline;
  return *done || by_us ? Released::yes : Released::was_not_held;
}

Result<Released> RowBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  const std::string name = name_of(key);
  const Deadline until = client_.usual_deadline();
  return client_.run<Released>(until, "", [&](Connection& c) -> Result<Released> {
    const auto r = look(c, name, until);
    if (!r) return fail(r.error());
    if (!r->held || (token && (!r->ours || r->fence != *token))) return Released::was_not_held;
    const auto done = force_over(c, name, *r, until);
    if (!done) return fail(done.error());
    return *done ? Released::yes : Released::was_not_held;
  });
}

}  // namespace dlock::mysql
