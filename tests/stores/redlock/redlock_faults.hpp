// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <filesystem>
#include "redis/wire/connection.hpp"
#include "redlock/redlock_backend.hpp"
#include "redlock_scripts/scripts.hpp"
#include "support/polling.hpp"
#include "support/redlock_masters.hpp"

namespace dlock::test {

using namespace std::chrono_literals;

inline Key key(const char* text) { return *Key::parse(text); }

// What is no promise ends in this time on any machine.
constexpr Duration long_enough = 60s;

inline Progress answer_of(Backend& b, const Request& r) { return answer_of(**b.enqueue(r)); }

inline Lease granted_within(Backend& b, const Request& r, Duration bound = long_enough) {
  const auto waiter = *b.enqueue(r);
  return granted_within(*waiter, bound);
}

// The number of masters at which this owner has the lock.
inline std::size_t votes_of(RedlockMasters& m, const std::string& name, const Owner& owner) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < m.size(); ++i)
    n += m.servers[i]->pid() > 0 && m.value(i, name).starts_with(owner.hex());
  return n;
}

// In its record of "k".
inline std::string known_list(RedlockMasters& m, std::size_t i) {
  const std::string record = m.value(i, redlock::Names{"k"}.record);
  std::size_t from = 0;
  for (int field = 0; field < 5; ++field) from = record.find('|', from) + 1;
  return record.empty() ? "" : record.substr(from, record.find('|', from) - from);
}

// Settings with which a master can prove that it keeps a lease over a restart.
inline const std::vector<std::string> durable{"appendonly yes", "appendfsync always",
                                              "auto-aof-rewrite-percentage 0"};

// Its disk was lost: it restarts empty, with the same settings.
inline void restart_wiped(RedisServer& s) {
  s.kill();
  for (const char* what : {"appendonlydir", "appendonly.aof", "dump.rdb"})
    std::filesystem::remove_all(s.directory() + "/" + what);
  s.start();
}

inline bool eventually(const std::function<bool()>& so, Duration bound = long_enough) {
  for (const Deadline until = later(Clock::now(), bound); Clock::now() < until; ::usleep(2000))
    if (so()) return true;
  return so();
}

// A master that was slow to connect has no vote at first; renewals take it.
inline bool has_all_votes(RedlockMasters& m, Backend& b, const Lease& l, const char* name,
                          Duration ttl) {
  return eventually([&] {
    return votes_of(m, name, l.owner) == m.size() ||
           (b.renew(l, ttl) && votes_of(m, name, l.owner) == m.size());
  });
}

// So that the next confirmation is an EVALSHA at every master, and no earlier message comes behind
// this: not even at one that was left out at first.
inline void warm_up(RedlockMasters& m, Backend& b, const char* name = "warm") {
  const Lease warm = granted_within(b, request(key(name), 300s));
  REQUIRE(has_all_votes(m, b, warm, name, 300s));
  REQUIRE(b.release(warm) == Released::yes);
  REQUIRE(eventually([&] { return votes_of(m, name, warm.owner) == 0; }));
  const redis::Script& confirm = redlock::scripts::confirm;
  for (auto& s : m.servers)
    REQUIRE(s->command({"SCRIPT", "LOAD", confirm.text}).text == confirm.sha);
}

}  // namespace dlock::test
