// SPDX-License-Identifier: Apache-2.0
// Where a key is: which server its line has to go to.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "core/backend.hpp"
#include "redis/wire/line.hpp"

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

// The master that more than half of the sentinels of the URL name. Asked again whenever the last
// answer is older than `fresh`, also while a lock is held or waited for: a client that is cut off
// together with a deposed master would otherwise go on renewing there. No majority: no answer, so
// nothing is granted or renewed, and a holder ends at its deadline. A silent one delays nothing as
// long as the others are a majority.
class SentinelLocator final : public Locator {
 public:
  static constexpr Duration fresh = std::chrono::milliseconds{500};

  explicit SentinelLocator(Line::Shared);
  ~SentinelLocator() override;
  Result<Endpoint> find(std::string_view key, Wait) override;
  void invalidate(const Endpoint&, std::string_view) override { asked_.reset(); }
  Result<std::vector<Endpoint>> everyone(Wait) override;
  void examine(Wait, std::vector<Finding>&) override;

 private:
  class Sentinel;
  // Asks all of them at once, until `enough` agree or no answer is outstanding.
  void ask(std::size_t enough, Wait);
  std::size_t votes(const Endpoint& master) const;

  std::vector<std::unique_ptr<Sentinel>> sentinels_;
  Endpoint master_;
  std::optional<Deadline> asked_;  // when they named master_
};

// The hashed part of a key in a cluster: between the first '{' and the next '}', if not empty.
std::string_view hashed_part(std::string_view name) noexcept;
// The slot of a key: CRC-16 (XMODEM) of that part, or of all of it, modulo 16384.
std::uint16_t slot_of(std::string_view key) noexcept;

// "MOVED 3999 127.0.0.1:6381", as answered by `asked`. Nothing: another error.
struct Moved {
  std::uint16_t slot;
  Endpoint to;
};
std::optional<Moved> parse_moved(std::string_view text, const Endpoint& asked);
// "ASK 3999 127.0.0.1:6381": this one request belongs there, behind ASKING; the slot is being
// moved.
std::optional<Moved> parse_ask(std::string_view text, const Endpoint& asked);

// The slot map of a cluster, from CLUSTER SLOTS of the first node that answers and is in contact
// with the others; corrected by MOVED, and read again, from another node, when a node fails or says
// that it is cut off.
class ClusterLocator final : public Locator {
 public:
  explicit ClusterLocator(Line::Shared);
  Result<Endpoint> find(std::string_view key, Wait) override;
  void invalidate(const Endpoint&, std::string_view text) override;
  Result<std::vector<Endpoint>> everyone(Wait) override;
  void examine(Wait, std::vector<Finding>&) override;

 private:
  static constexpr std::uint16_t unknown = UINT16_MAX;
  Result<void> read_map(Wait);
  void adopt(const Endpoint& from, const Reply& map);
  std::uint16_t index_of(Endpoint);

  const Line::Shared shared_;
  std::vector<Endpoint> nodes_;               // masters, those of the current map and earlier ones
  std::array<std::uint16_t, 16384> slots_{};  // index into nodes_
  bool known_ = false;
};

}  // namespace dlock::redis
