// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>
#include <vector>
#include "core/backend.hpp"
#include "redis/wire/connection.hpp"
#include "redis/wire/endpoint.hpp"

namespace dlock::redis {

// Finds the server of a key.
class Locator {
 public:
  virtual ~Locator() = default;
  virtual Result<Endpoint> find(std::string_view key, Wait) = 0;
  // That server could not be reached, or answered `text` (an error that means "elsewhere"): look it
  // up again next time.
  virtual void invalidate(const Endpoint&, std::string_view text) = 0;
  // Every server that has keys.
  virtual Result<std::vector<Endpoint>> everyone(Wait) = 0;
  // Findings about the way that servers are found.
  virtual void examine(Wait, std::vector<Finding>&) {}
};

// One server, for all keys.
class SingleServer final : public Locator {
 public:
  explicit SingleServer(Endpoint at) : at_(std::move(at)) {}
  Result<Endpoint> find(std::string_view, Wait) override { return at_; }
  void invalidate(const Endpoint&, std::string_view) override {}
  Result<std::vector<Endpoint>> everyone(Wait) override { return std::vector{at_}; }

 private:
  Endpoint at_;
};

}  // namespace dlock::redis
