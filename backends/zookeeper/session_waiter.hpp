// SPDX-License-Identifier: Apache-2.0
// What waiting on a session has in common, whatever the recipe: turns until one has an answer, leaving, and the watch that must not outlive it.
#pragma once
#include "zookeeper/base.hpp"

namespace dlock::zookeeper {

class SessionWaiter : public Waiter {
 public:
  ~SessionWaiter() override;
  Result<Progress> poll(Duration slice) final;
  Result<void> cancel() final;

 protected:
  using Step = Result<std::optional<Progress>>;  // nothing: go on

  SessionWaiter(Base& base, Request request) : request_(std::move(request)), base_(base) {}
  virtual Step turn(Deadline end) = 0;

  const Request request_;
  WatchId watch_ = 0;

 private:
  Base& base_;
};

}  // namespace dlock::zookeeper
