// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>
#include "redis/wire/dialogue.hpp"
#include "redis/wire/locator.hpp"
#include "redis/wire/options.hpp"

namespace dlock::redis {

// The slot of a key in a cluster: CRC-16 (XMODEM) of the part in braces, or of all of it, modulo
// 16384.
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
  ClusterLocator(const Options&, const TlsContext*, std::uint64_t& requests);
  Result<Endpoint> find(std::string_view key, Wait) override;
  void invalidate(const Endpoint&, std::string_view text) override;
  Result<std::vector<Endpoint>> everyone(Wait) override;
  void examine(Wait, std::vector<Finding>&) override;

 private:
  static constexpr std::uint16_t unknown = UINT16_MAX;
  Result<void> read_map(Wait);
  void adopt(const Endpoint& from, const Reply& map);
  std::uint16_t index_of(Endpoint);

  const Options& options_;
  const TlsContext* tls_;
  std::uint64_t& requests_;
  std::vector<Endpoint> nodes_;               // masters, those of the current map and earlier ones
  std::array<std::uint16_t, 16384> slots_{};  // index into nodes_
  bool known_ = false;
};

}  // namespace dlock::redis
