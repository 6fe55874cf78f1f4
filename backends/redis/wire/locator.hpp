// SPDX-License-Identifier: Apache-2.0
// Finds the server that has a key.
#pragma once
#include "redis/wire/connection.hpp"
#include "store/backend.hpp"

namespace dlock::redis {

class Locator {
 public:
  virtual ~Locator() = default;
  virtual Result<Endpoint> find(std::string_view key, Wait) = 0;
  // Call it if that server could not be reached, or if its reply `text` means that another server
  // is right. The next request looks the server up again.
  virtual void invalidate(const Endpoint&, std::string_view text) = 0;
  // Returns all servers that have keys.
  virtual Result<std::vector<Endpoint>> everyone(Wait) = 0;
  // Returns, for a message, who named this address. Empty: the URL named it.
  virtual std::string origin(const Endpoint&) const { return {}; }
  // Adds findings about how servers are found.
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

// Finds the master that more than half of the URL's sentinels name. It asks the sentinels again
// when their last answer is older than `sentinels_count_for`, also while a lock is held or waited
// for. Otherwise a client that is cut off together with a deposed master would continue to renew
// there. Without a majority nothing is granted or renewed, and a held lock ends at its deadline. A
// silent sentinel delays nothing if the others are a majority.
std::unique_ptr<Locator> by_sentinels(Connection::Shared);
inline constexpr Duration sentinels_count_for = std::chrono::milliseconds{500};

// Keeps the slot map of a cluster. The map is the reply to CLUSTER SLOTS of the first node that
// replies and can reach the other nodes. MOVED corrects the map. The map is read again, from
// another node, when a node fails or reports that it is cut off.
std::unique_ptr<Locator> by_slots(Connection::Shared);

// Returns the part of a key that is hashed: the text between the first '{' and the next '}', or the
// whole key if there is no such text.
std::string_view hashed_part(std::string_view name) noexcept;
// Returns the slot of a key: CRC-16 (XMODEM) of hashed_part(), modulo 16384.
std::uint16_t slot_of(std::string_view key) noexcept;

// Parses "MOVED 3999 127.0.0.1:6381", a reply of `from`. nullopt: it is another error.
struct Moved {
  std::uint16_t slot;
  Endpoint to;
};
std::optional<Moved> parse_moved(std::string_view text, const Endpoint& from);
// Parses "ASK 3999 127.0.0.1:6381": the slot is being moved, and only this request must go there,
// after ASKING.
std::optional<Moved> parse_ask(std::string_view text, const Endpoint& from);

}  // namespace dlock::redis
