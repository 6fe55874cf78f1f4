// SPDX-License-Identifier: Apache-2.0
// Servers that do not write, are stopped or restarted; names that are looked up for ever.
#include <filesystem>
#include "faults.hpp"
#include "support/name_service.hpp"
#include "support/stranger.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("a server that does not write is refused, and another of the URL is used") {
  PostgresServer reader{{.config = {"default_transaction_read_only=on"}}};
  const auto only = open_postgres(reader.url(), patient());
  const auto p = waiter(*only, request(key("k")))->poll(0us);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::unavailable);
  CHECK(p.error().message.find("read-only") != std::string::npos);
  const auto found = only->doctor();
  REQUIRE(found);
  CHECK((*found)[1].level == Finding::Level::bad);
  PostgresDatabase db{server()};
  reader.sql("SET default_transaction_read_only=off");
  reader.sql("CREATE DATABASE " + db.name());
  const auto both = open_postgres(fmt::format("postgresql://postgres@127.0.0.1:{},127.0.0.1:{}/{}",
                                              reader.port(), server().port(), db.name()),
                                  patient());
  release_or_fail(*both, acquire_or_fail(*both, request(key("k"))));
  CHECK(db.value("SELECT count(*) FROM dlock_lock") == "1");
}

TEST_CASE("a standby is refused") {
  PostgresServer primary;
  const std::string copy = primary.directory() + "/standby/data";
  std::filesystem::create_directories(copy);
  primary.sql("CHECKPOINT");
  primary.sql("SELECT pg_backup_start('t',true)");
  std::filesystem::copy(primary.directory() + "/data", copy,
                        std::filesystem::copy_options::recursive);
  std::filesystem::remove(copy + "/postmaster.pid");
  primary.sql("SELECT * FROM pg_backup_stop()");
  std::filesystem::remove_all(copy + "/pg_wal");
  std::filesystem::copy(primary.directory() + "/data/pg_wal", copy + "/pg_wal",
                        std::filesystem::copy_options::recursive);
  std::fclose(std::fopen((copy + "/standby.signal").c_str(), "we"));
  PostgresServer standby{
      {.config = {fmt::format("primary_conninfo='host=127.0.0.1 port={} user=postgres'",
                              primary.port())},
       .data_of = primary.directory() + "/standby"}};
  const auto b = open_postgres(standby.url(), patient());
  const auto p = waiter(*b, request(key("k")))->poll(0us);
  REQUIRE_FALSE(p);
  CHECK(p.error().message.find("read-only") != std::string::npos);
}

TEST_CASE(
    "names: of two addresses one that is silent costs a connection 250 ms, not half of its time") {
  PostgresDatabase db{server()};
  const Listener silent{server().port(), 8};
  name_service::answer("two.test", {"127.0.0.8", "127.0.0.1"});
  CHECK(ends_within(2s, [&] {
    const auto two = open_postgres(
        fmt::format("postgresql://postgres@two.test:{}/{}", server().port(), db.name()),
        quick(5s, 5s));
    CHECK(two->inspect(key("j")));
  }));
  name_service::answer("two.test", {});
}
