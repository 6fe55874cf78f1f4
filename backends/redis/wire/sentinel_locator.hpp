// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include "redis/wire/dialogue.hpp"
#include "redis/wire/locator.hpp"
#include "redis/wire/options.hpp"

namespace dlock::redis {

// The master that more than half of the sentinels of the URL name. Asked again whenever the last
// answer is older than `fresh`, also while a lock is held or waited for: a client that is cut off
// together with a deposed master would otherwise go on renewing there. No majority: no answer, so
// nothing is granted or renewed, and a holder ends at its deadline. A silent one delays nothing as
// long as the others are a majority.
class SentinelLocator final : public Locator {
 public:
  static constexpr Duration fresh = std::chrono::milliseconds{500};

  SentinelLocator(const Options&, const TlsContext*, std::uint64_t& requests);
  ~SentinelLocator() override;
  Result<Endpoint> find(std::string_view key, Wait) override;
  void invalidate(const Endpoint&, std::string_view) override { asked_.reset(); }
  Result<std::vector<Endpoint>> everyone(Wait) override;
  void examine(Wait, std::vector<Finding>&) override;

 private:
  struct Sentinel;
  // Asks all of them at once, until `enough` agree or no answer is outstanding.
  void ask(std::size_t enough, Wait);
  std::size_t votes(const Endpoint& master) const;

  std::vector<std::unique_ptr<Sentinel>> sentinels_;
  Endpoint master_;
  std::optional<Deadline> asked_;  // when they named master_
};

}  // namespace dlock::redis
