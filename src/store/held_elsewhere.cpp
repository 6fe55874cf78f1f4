// SPDX-License-Identifier: Apache-2.0
#include "store/held_elsewhere.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/text.hpp"
#include "store/wrapped.hpp"

namespace dlock {
namespace {

class BorrowedWaiter final : public Waiter {
 public:
  BorrowedWaiter(Backend& inner, const Request& request, Lease lease)
      : inner_(inner), request_(request), lease_(std::move(lease)) {}

  Result<Progress> poll(Duration) override {
    const Deadline sent = Clock::now();
    TRY(answer, inner_.renew(lease_, request_.ttl));
    if (const Lost* lost = std::get_if<Lost>(&answer))
      return Progress{
          Busy{std::nullopt, fmt::format("is not held by this handle: {}", lost->why), sent}};
    Lease& lease = std::get<Kept>(answer).lease;
    // If the holding process were killed, the lock would become free while the command still runs.
    if (lease.deadline == no_deadline)
      return fail(Errc::usage,
                  "--handle: {} is held by a process (acquire --hold, "
                  "run) and ends with it, so no other "
                  "can run a command under it; take it with acquire",
                  printable(request_.key.text()));
    return Progress{Granted{std::move(lease)}};
  }
  Result<void> cancel() override { return {}; }

 private:
  Backend& inner_;
  const Request request_;
  const Lease lease_;
};

class Borrowed final : public Wrapped {
 public:
  Borrowed(std::unique_ptr<Backend> inner, Handle handle)
      : Wrapped(std::move(inner)), handle_(std::move(handle)) {}
  Result<std::unique_ptr<Waiter>> enqueue(const Request& r) override {
    return std::make_unique<BorrowedWaiter>(*inner_, r, handle_.lease(r.key));
  }
  // The other process releases the lock. If it did so while the command still ran, the command was
  // not protected any more. So the result is was_not_held, and dlock prints a message.
  Result<Released> release(const Lease& lease, std::optional<RunEnd>) override {
    TRY(valid, inner_->check(lease.key, lease.owner));
    return valid == Validity::valid ? Released::yes : Released::was_not_held;
  }

 private:
  const Handle handle_;
};

// Refuses a request that the outer grant does not cover, because the request would wait for its own
// ancestor. An exclusive grant covers a shared request, and a permit covers a request with the same
// limit.
Result<void> covers(const InheritedGrant& outer, const Request& r) {
  const auto refuse = [&](std::string_view held, std::string_view requested) {
    return fail(Errc::usage,
                "{} is held {} by this command's own dlock, so it can "
                "never be taken {}: they would wait for each "
                "other (--no-reentrant makes it an ordinary contender)",
                printable(r.key.text()), held, requested);
  };
  const Mode mode = outer.lease.mode;
  if (mode == Mode::permit && r.mode == Mode::permit && outer.limit == r.limit) return {};
  if (mode == Mode::permit)
    return refuse(fmt::format("with --limit {}", outer.limit), "in another way");
  if (r.mode == Mode::permit) return refuse("without --limit", "with it");
  if (mode == Mode::shared && r.mode == Mode::exclusive) return refuse("shared", "exclusively");
  return {};
}

class Reentrant final : public Wrapped {
 public:
  Reentrant(std::unique_ptr<Backend> inner, std::vector<InheritedGrant> grants)
      : Wrapped(std::move(inner)), grants_(std::move(grants)) {}

  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease& l, Duration ttl) override {
    const auto* outer = joined(l);
    return outer ? renew_outer(*outer) : inner_->renew(l, ttl);
  }
  Result<Renewal> detach(const Lease& l, Duration ttl, std::optional<RunEnd> end) override {
    const auto* outer = joined(l);
    return outer ? renew_outer(*outer) : inner_->detach(l, ttl, end);
  }
  Result<Released> release(const Lease& l, std::optional<RunEnd> end) override {
    return joined(l) ? Released::yes : inner_->release(l, end);
  }

 private:
  friend class ReentrantWaiter;

  // Returns the grant of an outer dlock if the lease is that grant, else nullptr. A lease of ours
  // always has another owner.
  const InheritedGrant* joined(const Lease& l) const {
    const auto outer = std::ranges::find_if(grants_, [&](const InheritedGrant& g) {
      return g.lease.key == l.key && g.lease.owner == l.owner;
    });
    return outer == grants_.end() ? nullptr : &*outer;
  }
  Result<Validity> check_grant(const InheritedGrant& outer) {
    const auto dlock = outer.dlock();
    return dlock ? inner_->check_outer(outer.lease, *dlock) : Validity::stale;
  }
  Result<Renewal> renew_outer(const InheritedGrant& outer) {
    TRY(valid, check_grant(outer));
    if (valid == Validity::stale)
      return Renewal{Lost{"the enclosing dlock does not hold it any more"}};
    return Renewal{Kept{outer.lease}};
  }

  const std::vector<InheritedGrant> grants_;
};

class ReentrantWaiter final : public Waiter {
 public:
  ReentrantWaiter(Reentrant& all, const InheritedGrant& outer, const Request& request)
      : all_(all), outer_(outer), request_(request) {}

  Result<Progress> poll(Duration slice) override {
    if (!ordinary_) {
      TRY(valid, all_.check_grant(outer_));
      if (valid == Validity::valid) {
        TRY_VOID(covers(outer_, request_));
        return Progress{Granted{outer_.lease}};
      }
      TRY(queued, all_.inner_->enqueue(request_));
      ordinary_ = std::move(queued);
    }
    return ordinary_->poll(slice);
  }
  Result<void> cancel() override { return ordinary_ ? ordinary_->cancel() : Result<void>{}; }

 private:
  Reentrant& all_;
  const InheritedGrant& outer_;
  const Request request_;
  std::unique_ptr<Waiter> ordinary_;
};

Result<std::unique_ptr<Waiter>> Reentrant::enqueue(const Request& r) {
  for (const InheritedGrant& g : grants_)
    if (g.lease.key == r.key && g.family == traits().family && g.recipe == traits().recipe)
      return std::make_unique<ReentrantWaiter>(*this, g, r);
  return inner_->enqueue(r);
}

}  // namespace

std::unique_ptr<Backend> borrowed(std::unique_ptr<Backend> inner, Handle handle) {
  return std::make_unique<Borrowed>(std::move(inner), std::move(handle));
}

std::unique_ptr<Backend> reentrant(std::unique_ptr<Backend> inner,
                                   std::vector<InheritedGrant> grants) {
  return std::make_unique<Reentrant>(std::move(inner), std::move(grants));
}

}  // namespace dlock
