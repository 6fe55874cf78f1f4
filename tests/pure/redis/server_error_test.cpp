// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include "redis/wire/reply.hpp"

using namespace dlock;
using namespace dlock::redis;

TEST_CASE("the remedy for each server error") {
  struct Row {
    const char* text;
    Remedy remedy;
    Errc code;
  };
  const Row rows[] = {
      {"NOSCRIPT No matching script. Please use EVAL.", Remedy::send_text, Errc::unavailable},
      {"MOVED 3999 127.0.0.1:6381", Remedy::elsewhere, Errc::unavailable},
      {"ASK 3999 127.0.0.1:6381", Remedy::later, Errc::unavailable},
      {"READONLY You can't write against a read only replica. script: 3a4f, on @user_script:9.",
       Remedy::elsewhere, Errc::unavailable},
      {"ERR Error running script (call to f_1f): @user_script:9: @user_script: 9: -READONLY You "
       "can't write against a read only "
       "replica.",
       Remedy::elsewhere, Errc::unavailable},
      {"UNBLOCKED force unblock from blocking operation, instance state changed (master -> "
       "replica?)",
       Remedy::elsewhere, Errc::unavailable},
      {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
       Remedy::elsewhere, Errc::unavailable},
      {"LOADING Redis is loading the dataset in memory", Remedy::later, Errc::unavailable},
      {"CLUSTERDOWN The cluster is down", Remedy::elsewhere, Errc::unavailable},
      {"TRYAGAIN Multiple keys request during rehashing of slot", Remedy::later, Errc::unavailable},
      {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
       Remedy::later, Errc::unavailable},
      {"OOM command not allowed when used memory > 'maxmemory'. script: 3a4f, on @user_script:9.",
       Remedy::later, Errc::unavailable},
      {"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to "
       "disk.",
       Remedy::later, Errc::unavailable},
      {"NOREPLICAS Not enough good replicas to write.", Remedy::later, Errc::unavailable},
      {"ERR max number of clients reached", Remedy::later, Errc::unavailable},
      {"NOAUTH Authentication required.", Remedy::none, Errc::denied},
      {"WRONGPASS invalid username-password pair or user is disabled.", Remedy::none, Errc::denied},
      {"NOPERM this user has no permissions to run the 'evalsha' command", Remedy::none,
       Errc::denied},
      {"ERR The user executing the script can't run this command or subcommand script: 6351, on "
       "@user_script:1.",
       Remedy::none, Errc::denied},
      {"ERR The user executing the script can't access at least one of the keys mentioned in the "
       "command arguments script: e7bd, "
       "on "
       "@user_script:1.",
       Remedy::none, Errc::denied},
      {"ERR invalid password", Remedy::none, Errc::denied},
      {"ERR AUTH <password> called without any password configured for the default user.",
       Remedy::none, Errc::denied},
      {"ERR unknown command `EVALSHA`, with args beginning with: ", Remedy::none, Errc::denied},
      {"ERR unknown command 'x', with args beginning with: 'READONLY' 'LOADING '", Remedy::none,
       Errc::denied},
      {"DENIED Redis is running in protected mode", Remedy::none, Errc::denied},
      {"WRONGTYPE Operation against a key holding the wrong kind of value", Remedy::none,
       Errc::usage},
      {"ERR Error running script (call to f_1f): @user_script:9: WRONGTYPE Operation against a key",
       Remedy::none, Errc::usage},
      {"ERR user_script:31: DLOCKDATA dlock:{k}:fence is not a record of dlock script: 3a4f, on "
       "@user_script:31.",
       Remedy::none, Errc::usage},
      {"ERR DB index is out of range", Remedy::none, Errc::usage},
      {"ERR some unknown error", Remedy::none, Errc::protocol},
      {"", Remedy::none, Errc::protocol},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(classify(row.text).remedy == row.remedy);
    CHECK(classify(row.text).code == row.code);
  }
}

TEST_CASE("a server's error text lets no terminal control sequence through") {
  const Error e = as_error("acquire", "db:6379", "ERR \x1b]0;title\x07" + std::string(500, 'x'));
  CHECK(e.message.find('\x1b') == std::string::npos);
  CHECK(e.message.find("\\x1b]0;title") != std::string::npos);
  CHECK(e.message.size() < 300);
}
