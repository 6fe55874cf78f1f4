// SPDX-License-Identifier: Apache-2.0
// Where a key is: which server its line has to go to.
#pragma once
#include "redis/wire/line.hpp"
#include "store/backend.hpp"

namespace dlock::redis {

class Locator {
 public:
  virtual ~Locator() = default;
  virtual Result<Endpoint> find(std::string_view key, Wait) = 0;
  // That server could not be reached, or answered `text` (an error that means "elsewhere"): look it
  // up again next time.
  virtual void invalidate(const Endpoint&, std::string_view text) = 0;
  // Every server that has keys.
  virtual Result<std::vector<Endpoint>> everyone(Wait) = 0;
  // For people, of an address that cannot be reached: who named it. Empty: the URL.
  virtual std::string origin(const Endpoint&) const { return {}; }
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
// answer is older than `sentinels_count_for`, also while a lock is held or waited for: a client
// that is cut off together with a deposed master would otherwise go on renewing there. No majority:
// no answer, so nothing is granted or renewed, and a holder ends at its deadline. A silent one
// delays nothing as long as the others are a majority.
std::unique_ptr<Locator> by_sentinels(Line::Shared);
inline constexpr Duration sentinels_count_for = std::chrono::milliseconds{500};

// The slot map of a cluster, from CLUSTER SLOTS of the first node that answers and is in contact
// with the others; corrected by MOVED, and read again, from another node, when a node fails or says
// that it is cut off.
std::unique_ptr<Locator> by_slots(Line::Shared);

// The hashed part of a key in a cluster: between the first '{' and the next '}', if not empty.
std::string_view hashed_part(std::string_view name) noexcept;
// The slot of a key: CRC-16 (XMODEM) of that part, or of all of it, modulo 16384.
std::uint16_t slot_of(std::string_view key) noexcept;

// "MOVED 3999 127.0.0.1:6381", as answered by `from`. Nothing: another error.
struct Moved {
  std::uint16_t slot;
  Endpoint to;
};
std::optional<Moved> parse_moved(std::string_view text, const Endpoint& from);
// "ASK 3999 127.0.0.1:6381": this one request belongs there, behind ASKING; the slot is being
// moved.
std::optional<Moved> parse_ask(std::string_view text, const Endpoint& from);

}  // namespace dlock::redis
