// SPDX-License-Identifier: Apache-2.0
// A MariaDB as the recipe `lease` of MySQL sees it: sessions over connections, the statements that
// sql_server.hpp answers, waits for named locks and for a locked row. It speaks with
// mysql_library.cpp in frames of fields, not in the protocol of MySQL.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "core/lock_state.hpp"
#include "simulation/ledger.hpp"
#include "simulation/network.hpp"
#include "simulation/sql_server.hpp"
#include "simulation/world.hpp"

namespace dlock::simulation {

class Database final : public Server {
 public:
  // `forgets`: a restart loses every row, as the promotion of a replica that has seen none of them.
  // `limit`: of every permit.
  Database(World& world, Ledger& ledger, bool forgets, unsigned limit)
      : Server(world), ledger_(ledger), forgets_(forgets), limit_(limit) {}

  void closed(const LinkPtr&) override;
  void restart() override;
  void lock_rows(Nanos span) override;
  bool empty() const override;
  std::uint64_t hash() const override;
  bool undoes(std::string_view request) const override;
  std::string name_of(std::string_view request) const override;

 private:
  struct Client {
    sql::Session session{};
    LinkPtr link{};  // none: the client has closed it, and the session does not know yet
    std::deque<std::string> open{};  // statements of the request that is being carried out
    Micros began = 0;                // the one that waits for a row
    bool waits_for_row = false;
    std::string waits_for_name{};
    sql::Row before{};       // of the answer to that wait
    std::uint64_t wait = 0;  // counts the waits, so that an old timer ends none
    Nanos heard = 0;
  };
  using Clients = std::map<std::uint64_t, Client>;

  void serve(const LinkPtr&) override;
  void login(const LinkPtr&);
  void go_on(Client&);
  void carry_out(Client&, Micros began);
  void answer(Client&, const sql::Reply&);
  void wait_for_name(Client&, const sql::Reply::Wait&);
  void end_wait_for_name(Client&, bool obtained);
  void wait_for_row(Client&);
  void hand_over_names();
  void release_rows();
  bool would_deadlock(const Client&, const std::string& name) const;
  void kill_query(std::uint64_t session);
  void end(std::uint64_t session);
  void watch_silence(std::uint64_t session);
  void look_at_locks();
  bool busy(const Client& c) const noexcept { return c.waits_for_row || !c.waits_for_name.empty(); }

  Ledger& ledger_;
  const bool forgets_;
  const unsigned limit_;
  Nanos rows_locked_until_ = 0;
  sql::Server sql_;
  Clients clients_;
  std::uint64_t last_session_ = 0, waits_ = 0;
  std::map<const Link*, std::uint64_t> of_link_;
  std::vector<std::uint64_t> queue_;        // sessions that wait for a name or a row, longest first
  std::map<FencingToken, Micros> holders_;  // as recorded when last seen, with their ends
};

}  // namespace dlock::simulation
