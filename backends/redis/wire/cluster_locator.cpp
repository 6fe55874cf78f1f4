// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/cluster_locator.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <memory>
#include <set>
#include "core/number.hpp"
#include "redis/fair/fair_record.hpp"
#include "redis/named/named_key.hpp"
#include "redis/wire/handshake.hpp"
#include "redis/wire/server_error.hpp"

namespace dlock::redis {

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

std::optional<Moved> parse_redirection(std::string_view word, std::string_view text,
                                       const Endpoint& asked) {
  if (!text.starts_with(word)) return std::nullopt;
  text.remove_prefix(word.size());
  const std::size_t space = text.find(' '), colon = text.rfind(':');
  if (space == text.npos || colon == text.npos || colon < space) return std::nullopt;
  const auto slot = parse_number<std::uint64_t>(text.substr(0, space)),
             port = parse_number<std::uint64_t>(text.substr(colon + 1));
  if (!slot || *slot > 16383 || !port || *port < 1 || *port > 65535) return std::nullopt;
  // empty: the node that was asked
  const std::string_view host = text.substr(space + 1, colon - space - 1);
  return Moved{
      static_cast<std::uint16_t>(*slot),
      {host.empty() ? asked.host : std::string{host}, static_cast<std::uint16_t>(*port), {}}};
}

}  // namespace

std::optional<Moved> parse_moved(std::string_view text, const Endpoint& asked) {
  return parse_redirection("MOVED ", text, asked);
}
std::optional<Moved> parse_ask(std::string_view text, const Endpoint& asked) {
  return parse_redirection("ASK ", text, asked);
}

ClusterLocator::ClusterLocator(const Options& options, const TlsContext* tls,
                               std::uint64_t& requests)
    : options_(options), tls_(tls), requests_(requests), nodes_(options.servers) {
  slots_.fill(unknown);
}

std::uint16_t ClusterLocator::index_of(Endpoint at) {
  const auto found = std::find(nodes_.begin(), nodes_.end(), at);
  if (found != nodes_.end()) return static_cast<std::uint16_t>(found - nodes_.begin());
  nodes_.push_back(std::move(at));
  return static_cast<std::uint16_t>(nodes_.size() - 1);
}

namespace {

// after which the next node is asked beside a silent one
constexpr auto between_nodes = std::chrono::milliseconds{30};

// The slots, as one node knows them.
class MapQuestion final : public Dialogue {
 public:
  MapQuestion(Endpoint at, const Options& options, const TlsContext* tls, std::uint64_t& requests)
      : talk(std::move(at), tls, options.op_timeout), options_(options), requests_(requests) {}

  void begin(Connection& c) override { greeting_.emplace(options_, c, requests_); }
  Result<bool> hear(Reply, Connection&) override;

  Talk talk;
  bool alone = false;  // it has no contact with the others, or says so: its map may be old
  // first slot, last slot, {host, port, ...} of the master, then those of replicas
  std::optional<Reply> slots;

 private:
  const Options& options_;
  std::uint64_t& requests_;
  std::optional<Greeting> greeting_;
  bool state_known_ = false;
};

Result<bool> MapQuestion::hear(Reply reply, Connection& c) {
  const std::string at = talk.at().text();
  if (greeting_) {
    TRY(facts, greeting_->hear(std::move(reply)));
    if (!facts) return false;
    if (!facts->cluster)
      return fail(Errc::usage, fmt::format("{} is no node of a cluster: use redis://", at));
    greeting_.reset();
    c.add({"CLUSTER", "INFO"});
    c.add({"CLUSTER", "SLOTS"});
    requests_ += 2;
    return false;
  }
  if (!std::exchange(state_known_, true)) {  // an error: it is not permitted
    alone = reply.is(Reply::Type::string) && reply.text.find("cluster_state:ok") == reply.text.npos;
    return false;
  }
  if (reply.is(Reply::Type::error)) return fail(as_error("ask for the slots", at, reply.text));
  for (const Reply& range : reply.items) {
    const auto first = range.number_at(0), last = range.number_at(1);
    if (!first || !last || range.items.size() < 3 || *first < 0 || *last > 16383 || *first > *last)
      return fail(Errc::protocol, fmt::format("ask for the slots at {}: malformed reply", at));
  }
  slots = std::move(reply);
  return true;
}

}  // namespace

void ClusterLocator::adopt(const Endpoint& at, const Reply& map) {
  slots_.fill(unknown);
  for (const Reply& range : map.items) {
    const std::string_view host = range.items[2].text_at(0);  // empty: the node that was asked
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
  std::vector<std::unique_ptr<MapQuestion>> asked;
  std::vector<Talk*> talks;
  for (const Endpoint& at : nodes_) {
    asked.push_back(std::make_unique<MapQuestion>(at, options_, tls_, requests_));
    talks.push_back(&asked.back()->talk);
  }
  auto next = asked.begin();
  const auto begin = [&] {
    if (next == asked.end()) return false;
    (*next)->talk.begin(**next, wait.until);
    return ++next != asked.end();
  };
  const MapQuestion* best = nullptr;
  converse(talks, wait, between_nodes, begin, [&] {
    for (const auto& q : asked)
      if (q->slots && (!best || (best->alone && !q->alone))) best = &*q;
    return best && !best->alone;
  });
  for (Talk* t : talks)
    if (!t->over()) t->end();  // the others are still asked for their errors
  if (best) {
    adopt(best->talk.at(), *best->slots);
    return {};
  }
  Error last{Errc::unavailable, "no node of the cluster answered in time"};
  for (const auto& q : asked) {
    if (!q->talk.over() || q->talk.outcome()) continue;
    last = q->talk.outcome().error();
    if (!retryable(last.code)) break;
  }
  return fail(std::move(last));
}

Result<Endpoint> ClusterLocator::find(std::string_view key, Wait wait) {
  TRY_VOID(read_map(wait));
  const std::uint16_t slot = slot_of(key), index = slots_[slot];
  if (index != unknown) return nodes_[index];
  known_ = false;
  return fail(Errc::unavailable, fmt::format("no node of the cluster has slot {}", slot));
}

void ClusterLocator::invalidate(const Endpoint& at, std::string_view text) {
  if (const auto moved = parse_moved(text, at)) {
    slots_[moved->slot] = index_of(moved->to);
    return;
  }
  known_ = false;  // a node that is gone, or has changed its role
  slots_.fill(unknown);
  // it is asked last
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
  const auto free = std::count(slots_.begin(), slots_.end(), unknown);
  out.push_back({masters && free == 0 ? Finding::Level::good : Finding::Level::bad, "cluster",
                 fmt::format("{} masters, {} of 16384 slots without one",
                             masters ? masters->size() : 0, free),
                 free == 0 ? "" : "keys of these slots cannot be locked"});
}

}  // namespace dlock::redis
