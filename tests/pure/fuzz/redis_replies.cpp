// SPDX-License-Identifier: Apache-2.0
// What a Redis server sends, which may be another program or a hostile one: RESP, and the records
// in it.
#include <string>
#include "redis/fair/fair_record.hpp"
#include "redis/wire/locator.hpp"
#include "redis/wire/reply.hpp"
#include "redlock/record.hpp"
#include "targets.hpp"

namespace dlock::fuzz {
namespace {

void records(const redis::Reply& reply, int depth) {
  must(depth < 20, "a reply is nested without end");
  (void)redlock::parse_state(reply);
  if (const auto holder = redis::parse_holder(reply.text))
    for (const Micros now : {Micros{0}, Micros{1} << 50}) (void)redis::view_of(*holder, now);
  (void)redis::parse_waiter(reply.text);
  if (reply.is(redis::Reply::Type::error)) {
    const Endpoint asked{"db1", 6379};
    (void)redis::parse_moved(reply.text, asked);
    (void)redis::parse_ask(reply.text, asked);
  }
  for (std::size_t i = 0; i < reply.items.size(); ++i) {
    (void)reply.text_at(i);
    (void)reply.number_at(i);
    records(reply.items[i], depth + 1);
  }
  (void)reply.text_at(reply.items.size());
  (void)reply.number_at(reply.items.size());
}

// The first byte says in which pieces the rest arrives.
void redis_reply(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::size_t piece = 1 + static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(1);
  redis::ReplyReader reader;
  while (!bytes.empty()) {
    if (!reader.feed(bytes.substr(0, piece))) return;
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (;;) {
      const auto next = reader.next();
      if (!next) return;
      if (!*next) break;
      records(**next, 0);
    }
  }
}

void redis_record(std::string_view text) {
  if (const auto holder = redis::parse_holder(text))
    for (const Micros now : {Micros{0}, Micros{1} << 50, never - 1})
      (void)redis::view_of(*holder, now);
  (void)redis::parse_waiter(text);
  for (const std::string& name : redlock::KnownList::parse(text).masters()) (void)name.size();
  const Endpoint asked{"db1", 6379};
  if (const auto moved = redis::parse_moved(text, asked)) must(moved->slot < 16384, "no slot");
  if (const auto ask = redis::parse_ask(text, asked)) must(ask->slot < 16384, "no slot");
}

const Added redis_targets[] = {{"redis_reply", redis_reply}, {"redis_record", redis_record}};

}  // namespace
}  // namespace dlock::fuzz
