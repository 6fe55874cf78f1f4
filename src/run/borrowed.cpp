// SPDX-License-Identifier: Apache-2.0
#include "run/borrowed.hpp"
#include <fmt/format.h>
#include "run/wrapped.hpp"

namespace dlock::run {
namespace {

class BorrowedWaiter final : public Waiter {
 public:
  BorrowedWaiter(Backend& inner, const Request& request, const std::string& ticket)
      : inner_(inner), request_(request), ticket_(ticket) {}

  Result<Progress> poll(Duration) override {
    auto answer = inner_.renew(Lease{.key = request_.key, .owner = request_.owner, .ticket = ticket_}, request_.ttl);
    if (!answer) return fail(answer.error());
    if (const Lost* lost = std::get_if<Lost>(&*answer))
      return Progress{Busy{std::nullopt, fmt::format("is not held by this handle: {}", lost->why)}};
    Lease& lease = std::get<Kept>(*answer).lease;
    if (lease.deadline == no_deadline)  // it would be free, and the command still running, when that process is killed
      return fail(Errc::usage,
                  fmt::format("--handle: {} is held by a process (acquire --hold, run) and ends with it, so no other "
                              "can run a command under it; take it with acquire",
                              printable(request_.key.text())));
    return Progress{Granted{std::move(lease)}};
  }
  Result<void> cancel() override { return {}; }

 private:
  Backend& inner_;
  const Request request_;
  const std::string ticket_;
};

class Borrowed final : public Wrapped {
 public:
  Borrowed(std::unique_ptr<Backend> inner, std::string ticket) : Wrapped(std::move(inner)), ticket_(std::move(ticket)) {}
  Result<std::unique_ptr<Waiter>> enqueue(const Request& r) override {
    return std::make_unique<BorrowedWaiter>(*inner_, r, ticket_);
  }
  // Not ours to give back; but whoever gave it back while the command ran has ended the exclusion, and that is said.
  Result<Released> release(const Lease& lease) override {
    const auto valid = inner_->check(lease.key, lease.owner);
    if (!valid) return fail(valid.error());
    return *valid == Validity::valid ? Released::yes : Released::was_not_held;
  }

 private:
  const std::string ticket_;
};

}  // namespace

std::unique_ptr<Backend> borrowed(std::unique_ptr<Backend> inner, std::string ticket) {
  return std::make_unique<Borrowed>(std::move(inner), std::move(ticket));
}

}  // namespace dlock::run
