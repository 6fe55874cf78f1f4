// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <set>
#include "core/number.hpp"
#include "redis/wire/in_flight.hpp"
#include "redis/wire/locator.hpp"

namespace dlock::redis {

std::string_view hashed_part(std::string_view name) noexcept {
  const std::size_t open = name.find('{');
  const std::size_t close = open == name.npos ? name.npos : name.find('}', open + 1);
  return close == name.npos || close == open + 1 ? name : name.substr(open + 1, close - open - 1);
}

std::uint16_t slot_of(std::string_view key) noexcept {
  unsigned crc = 0;
  for (const char c : hashed_part(key)) {
    crc ^= static_cast<unsigned>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc & 0x8000U) != 0 ? (crc << 1 ^ 0x1021U) & 0xffffU : crc << 1;
  }
  return static_cast<std::uint16_t>(crc % 16384);
}

namespace {

std::optional<Moved> parse_redirection(std::string_view name, std::string_view text,
                                       const Endpoint& from) {
  if (!text.starts_with(name)) return std::nullopt;
  text.remove_prefix(name.size());
  const std::size_t space = text.find(' '), colon = text.rfind(':');
  if (space == text.npos || colon == text.npos || colon < space) return std::nullopt;
  const auto slot = parse_number<std::uint64_t>(text.substr(0, space)),
             port = parse_number<std::uint64_t>(text.substr(colon + 1));
  if (!slot || *slot > 16383 || !port || *port < 1 || *port > 65535) return std::nullopt;
  // An empty host means the node that we asked.
  const std::string_view host = text.substr(space + 1, colon - space - 1);
  return Moved{
      static_cast<std::uint16_t>(*slot),
      {host.empty() ? from.host : std::string{host}, static_cast<std::uint16_t>(*port), {}}};
}

}  // namespace

std::optional<Moved> parse_moved(std::string_view text, const Endpoint& from) {
  return parse_redirection("MOVED ", text, from);
}
std::optional<Moved> parse_ask(std::string_view text, const Endpoint& from) {
  return parse_redirection("ASK ", text, from);
}

namespace {

// If a node is silent for this long, the next node is asked, too.
constexpr auto between_nodes = std::chrono::milliseconds{30};

// Asks one node for its slot map.
class MapRequest final : public InFlight {
 public:
  MapRequest(Connection::Shared shared, const Endpoint& at)
      : InFlight(shared, at, Connection::Greeting::full) {}

  bool alone = false;  // the node cannot reach the others, so its map may be old
  // Each element: first slot, last slot, {host, port, ...} of the master, then those of its
  // replicas.
  std::optional<Reply> slots;

 private:
  Result<void> send() override {
    if (!line_.facts().cluster)
      return fail(Errc::usage, "{} is no node of a cluster: use redis://", at().text());
    line_.send({"CLUSTER", "INFO"}, no_deadline);
    line_.send({"CLUSTER", "SLOTS"}, no_deadline);
    return {};
  }
  Result<bool> on_reply(std::size_t n, Reply) override;
};

Result<bool> MapRequest::on_reply(std::size_t n, Reply reply) {
  if (n == 0) {  // an error: the right is missing
    alone = reply.is(Reply::Type::string) && reply.text.find("cluster_state:ok") == reply.text.npos;
    return false;
  }
  const std::string there = at().text();
  if (reply.is(Reply::Type::error)) return fail(as_error("ask for the slots", there, reply.text));
  for (const Reply& range : reply.items) {
    const auto first = range.number_at(0), last = range.number_at(1);
    if (!first || !last || range.items.size() < 3 || *first < 0 || *last > 16383 || *first > *last)
      return fail(Errc::protocol, "ask for the slots at {}: malformed reply", there);
  }
  slots = std::move(reply);
  return true;
}

class ClusterLocator final : public Locator {
 public:
  explicit ClusterLocator(Connection::Shared shared)
      : shared_(shared), nodes_(shared.options.servers) {
    slots_.fill(unknown);
  }
  Result<Endpoint> find(std::string_view key, Wait) override;
  void invalidate(const Endpoint&, std::string_view text) override;
  Result<std::vector<Endpoint>> everyone(Wait) override;
  void examine(Wait, std::vector<Finding>&) override;
  std::string origin(const Endpoint& at) const override {
    const auto& given = shared_.options.servers;
    if (std::ranges::find(given, at) != given.end()) return "";
    return "other nodes named this address; a server behind NAT or in a container needs "
           "cluster-announce-ip";
  }

 private:
  static constexpr std::uint16_t unknown = UINT16_MAX;
  Result<void> read_map(Wait);
  void adopt(const Endpoint& from, const Reply& map);
  std::uint16_t index_of(Endpoint);

  const Connection::Shared shared_;
  std::vector<Endpoint> nodes_;               // the masters of the current map and earlier maps
  std::array<std::uint16_t, 16384> slots_{};  // index into nodes_
  bool known_ = false;
};

std::uint16_t ClusterLocator::index_of(Endpoint at) {
  const auto found = std::ranges::find(nodes_, at);
  if (found != nodes_.end()) return static_cast<std::uint16_t>(found - nodes_.begin());
  nodes_.push_back(std::move(at));
  return static_cast<std::uint16_t>(nodes_.size() - 1);
}

void ClusterLocator::adopt(const Endpoint& at, const Reply& map) {
  slots_.fill(unknown);
  for (const Reply& range : map.items) {
    const std::string_view host = range.items[2].text_at(0);  // empty: the node that we asked
    const auto port = range.items[2].number_at(1);
    if (!port || *port < 1 || *port > 65535) continue;
    const auto index = index_of({host.empty() || host == "?" ? at.host : std::string{host},
                                 static_cast<std::uint16_t>(*port),
                                 {}});
    std::fill(slots_.begin() + *range.number_at(0), slots_.begin() + *range.number_at(1) + 1,
              index);
  }
  known_ = true;
}

Result<void> ClusterLocator::read_map(Wait wait) {
  if (known_) return {};
  std::vector<std::unique_ptr<MapRequest>> maps;
  std::vector<InFlight*> questions;
  for (const Endpoint& at : nodes_) {
    maps.push_back(std::make_unique<MapRequest>(shared_, at));
    questions.push_back(maps.back().get());
  }
  const MapRequest* best = nullptr;
  run_all(questions, wait, between_nodes, [&] {
    for (const auto& q : maps)
      if (q->slots && (!best || (best->alone && !q->alone))) best = &*q;
    return best && !best->alone;
  });
  for (InFlight* q : questions) q->end();
  if (best) {
    adopt(best->at(), *best->slots);
    return {};
  }
  Error last{Errc::unavailable, "no node of the cluster answered in time"};
  for (const InFlight* q : questions) {
    if (!q->over() || q->outcome()) continue;
    last = q->outcome().error();
    if (!retryable(last.code)) break;
  }
  return fail(std::move(last));
}

Result<Endpoint> ClusterLocator::find(std::string_view key, Wait wait) {
  TRY_VOID(read_map(wait));
  const std::uint16_t slot = slot_of(key), index = slots_[slot];
  if (index != unknown) return nodes_[index];
  known_ = false;
  return fail(Errc::unavailable, "no node of the cluster has slot {}", slot);
}

void ClusterLocator::invalidate(const Endpoint& at, std::string_view text) {
  if (const auto moved = parse_moved(text, at)) {
    slots_[moved->slot] = index_of(moved->to);
    return;
  }
  known_ = false;  // the node is gone, or its role has changed
  slots_.fill(unknown);
  // Ask this node last next time.
  std::stable_partition(nodes_.begin(), nodes_.end(),
                        [&](const Endpoint& n) { return !(n == at); });
}

Result<std::vector<Endpoint>> ClusterLocator::everyone(Wait wait) {
  TRY_VOID(read_map(wait));
  std::set<std::uint16_t> indices{slots_.begin(), slots_.end()};
  indices.erase(unknown);
  std::vector<Endpoint> masters;
  for (const auto index : indices) masters.push_back(nodes_[index]);
  return masters;
}

void ClusterLocator::examine(Wait wait, std::vector<Finding>& out) {
  const auto masters = everyone(wait);
  const auto free = std::ranges::count(slots_, unknown);
  out.push_back({masters && free == 0 ? Finding::Level::good : Finding::Level::bad, "cluster",
                 fmt::format("{} masters, {} of 16384 slots without one",
                             masters ? masters->size() : 0, free),
                 free == 0 ? "" : "keys of these slots cannot be locked"});
}

}  // namespace

std::unique_ptr<Locator> by_slots(Connection::Shared shared) {
  return std::make_unique<ClusterLocator>(shared);
}

}  // namespace dlock::redis
