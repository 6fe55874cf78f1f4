// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include "redis/connection.hpp"
#include "redis/locator.hpp"
#include "redis/options.hpp"

namespace dlock::redis {

// The master that more than half of the sentinels of the URL name. Asked again whenever the last answer is older than `fresh`, also while a lock is held
// or waited for: a client that is cut off together with a deposed master would otherwise go on renewing there. No majority: no answer, so nothing is
// granted or renewed, and a holder ends at its deadline.
class SentinelLocator final : public Locator {
 public:
  static constexpr Duration fresh = std::chrono::milliseconds{500};

  SentinelLocator(const Options&, const TlsContext*, std::uint64_t& requests);
  Result<Endpoint> find(std::string_view key, Wait) override;
  void mistrust(const Endpoint&, std::string_view) override { asked_.reset(); }
  Result<std::vector<Endpoint>> everyone(Wait) override;
  void examine(Wait, std::vector<Finding>&) override;

 private:
  struct Sentinel {
    Endpoint at;
    std::unique_ptr<Connection> connection;
    std::string answer;  // "host:port" of the last one
  };
  Result<Endpoint> ask(Sentinel&, Wait);
  Result<Endpoint> ask_anew(Sentinel&, Wait);
  Result<Reply> exchange(Connection&, std::initializer_list<std::string_view>, Wait);

  const Options& options_;
  const TlsContext* tls_;
  std::uint64_t& requests_;
  std::vector<Sentinel> sentinels_;
  Endpoint master_;
  std::optional<Deadline> asked_;  // when they named master_
};

}  // namespace dlock::redis
