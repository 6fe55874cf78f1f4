// SPDX-License-Identifier: Apache-2.0
#include "redis/cluster.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <set>
#include "redis/handshake.hpp"
#include "redis/named_key.hpp"
#include "redis/record.hpp"
#include "redis/server_error.hpp"

namespace dlock::redis {

std::uint16_t slot_of(std::string_view key) noexcept {
  unsigned crc = 0;
  for (const char c : hashed_part(key)) {
    crc ^= static_cast<unsigned>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000U) != 0 ? (crc << 1 ^ 0x1021U) & 0xffffU : crc << 1;
  }
  return static_cast<std::uint16_t>(crc % 16384);
}

std::optional<Moved> parse_moved(std::string_view text, const Endpoint& asked) {
  constexpr std::string_view word = "MOVED ";
  if (!text.starts_with(word)) return std::nullopt;
  text.remove_prefix(word.size());
  const std::size_t space = text.find(' '), colon = text.rfind(':');
  if (space == text.npos || colon == text.npos || colon < space) return std::nullopt;
  const auto slot = parse_unsigned(text.substr(0, space)), port = parse_unsigned(text.substr(colon + 1));
  if (!slot || *slot > 16383 || !port || *port < 1 || *port > 65535) return std::nullopt;
  const std::string_view host = text.substr(space + 1, colon - space - 1);  // empty: the one we asked
  return Moved{static_cast<std::uint16_t>(*slot),
               {host.empty() ? asked.host : std::string{host}, static_cast<std::uint16_t>(*port), {}}};
}

ClusterLocator::ClusterLocator(const Options& options, const TlsContext* tls, std::uint64_t& requests)
    : options_(options), tls_(tls), requests_(requests), nodes_(options.servers) {
  slots_.fill(unknown);
}

std::uint16_t ClusterLocator::index_of(Endpoint at) {
  const auto found = std::find(nodes_.begin(), nodes_.end(), at);
  if (found != nodes_.end()) return static_cast<std::uint16_t>(found - nodes_.begin());
  nodes_.push_back(std::move(at));
  return static_cast<std::uint16_t>(nodes_.size() - 1);
}

Result<void> ClusterLocator::read_map_of(const Endpoint& at, Wait wait) {
  auto connection = Connection::open(at, tls_, options_.op_timeout, wait);
  if (!connection) return fail(std::move(connection.error()));
  const auto facts = greet(**connection, options_, wait, requests_);
  if (!facts) return fail(facts.error());
  if (!facts->cluster) return fail(Errc::usage, fmt::format("{} is no node of a cluster: use redis://", at.text()));
  (*connection)->add({"CLUSTER", "SLOTS"});
  ++requests_;
  if (auto ok = (*connection)->flush(wait); !ok) return ok;
  auto reply = (*connection)->receive(wait);
  if (!reply) return fail(std::move(reply.error()));
  if (!*reply) return fail(Errc::unavailable, fmt::format("ask for the slots at {}: no answer in time", at.text()));
  if ((*reply)->is(Reply::Type::error)) return fail(as_error("ask for the slots", at.text(), (*reply)->text));

  std::array<std::uint16_t, 16384> slots{};
  slots.fill(unknown);
  for (const Reply& range : (*reply)->items) {  // first slot, last slot, {host, port, ...} of the master, then those of replicas
    const auto first = range.number_at(0), last = range.number_at(1);
    if (!first || !last || range.items.size() < 3 || *first < 0 || *last > 16383 || *first > *last)
      return fail(Errc::protocol, fmt::format("ask for the slots at {}: the answer makes no sense", at.text()));
    const std::string_view host = range.items[2].text_at(0);  // empty: the one we asked
    const auto port = range.items[2].number_at(1);
    if (!port || *port < 1 || *port > 65535) continue;
    const auto index =
        index_of({host.empty() || host == "?" ? at.host : std::string{host}, static_cast<std::uint16_t>(*port), {}});
    std::fill(slots.begin() + *first, slots.begin() + *last + 1, index);
  }
  slots_ = slots;
  known_ = true;
  return {};
}

Result<void> ClusterLocator::read_map(Wait wait) {
  if (known_) return {};
  Error last{Errc::unavailable, "no node of the cluster is known"};
  const std::vector<Endpoint> candidates = nodes_;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Deadline start = Clock::now();  // one that is silent must leave time for the others
    const Wait own{start + (wait.until - start) / static_cast<long>(candidates.size() - i), wait.interrupt};
    auto ok = read_map_of(candidates[i], own);
    if (ok || !retryable(ok.error().code)) return ok;
    last = std::move(ok.error());
  }
  return fail(std::move(last));
}

Result<Endpoint> ClusterLocator::find(std::string_view key, Wait wait) {
  if (auto ok = read_map(wait); !ok) return fail(std::move(ok.error()));
  const std::uint16_t slot = slot_of(key), index = slots_[slot];
  if (index != unknown) return nodes_[index];
  known_ = false;
  return fail(Errc::unavailable, fmt::format("no node of the cluster has slot {}", slot));
}

void ClusterLocator::mistrust(const Endpoint& at, std::string_view text) {
  if (const auto moved = parse_moved(text, at)) {
    slots_[moved->slot] = index_of(moved->to);
    return;
  }
  known_ = false;  // a node that is away, or has changed its role
  slots_.fill(unknown);
  std::stable_partition(nodes_.begin(), nodes_.end(), [&](const Endpoint& n) { return !(n == at); });  // it is asked last
}

Result<std::vector<Endpoint>> ClusterLocator::everyone(Wait wait) {
  if (auto ok = read_map(wait); !ok) return fail(std::move(ok.error()));
  std::set<std::uint16_t> indices{slots_.begin(), slots_.end()};
  indices.erase(unknown);
  std::vector<Endpoint> masters;
  for (const auto index : indices) masters.push_back(nodes_[index]);
  return masters;
}

void ClusterLocator::examine(Wait wait, std::vector<Finding>& out) {
  const auto masters = everyone(wait);
  const auto free = std::count(slots_.begin(), slots_.end(), unknown);
  out.push_back({masters && free == 0 ? Finding::Level::good : Finding::Level::bad, "cluster",
                 fmt::format("{} masters, {} of 16384 slots without one", masters ? masters->size() : 0, free),
                 free == 0 ? "" : "keys of these slots cannot be locked"});
}

}  // namespace dlock::redis
