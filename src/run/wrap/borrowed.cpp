// SPDX-License-Identifier: Apache-2.0
#include "run/wrap/borrowed.hpp"
#include <fmt/format.h>
#include "core/text.hpp"
#include "run/wrap/wrapped.hpp"

namespace dlock::run {
namespace {

class BorrowedWaiter final : public Waiter {
 public:
  BorrowedWaiter(Backend& inner, const Request& request, Lease lease)
      : inner_(inner), request_(request), lease_(std::move(lease)) {}

  Result<Progress> poll(Duration) override {
    TRY(answer, inner_.renew(lease_, request_.ttl));
    if (const Lost* lost = std::get_if<Lost>(&answer))
      return Progress{Busy{std::nullopt, fmt::format("is not held by this handle: {}", lost->why)}};
    Lease& lease = std::get<Kept>(answer).lease;
    // it would become free, with the command still running, when that process is killed
    if (lease.deadline == no_deadline)
      return fail(Errc::usage, fmt::format("--handle: {} is held by a process (acquire --hold, "
                                           "run) and ends with it, so no other "
                                           "can run a command under it; take it with acquire",
                                           printable(request_.key.text())));
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
  // Not ours to release; but if it was released while the command ran, exclusion had ended, and a
  // message says so.
  Result<Released> release(const Lease& lease, std::optional<RunEnd>) override {
    TRY(valid, inner_->check(lease.key, lease.owner));
    return valid == Validity::valid ? Released::yes : Released::was_not_held;
  }

 private:
  const Handle handle_;
};

}  // namespace

std::unique_ptr<Backend> borrowed(std::unique_ptr<Backend> inner, Handle handle) {
  return std::make_unique<Borrowed>(std::move(inner), std::move(handle));
}

}  // namespace dlock::run
