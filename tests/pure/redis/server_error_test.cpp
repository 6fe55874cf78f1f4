// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <vector>
#include "redis/wire/reply.hpp"

using namespace dlock;
using namespace dlock::redis;

TEST_CASE("the remedy for each server error") {
  struct Row {
    Remedy remedy;
    Errc code;
    std::vector<const char*> texts;
  };
  const Row rows[] = {
      {Remedy::send_text, Errc::unavailable, {"NOSCRIPT No matching script. Please use EVAL."}},
      {Remedy::elsewhere,
       Errc::unavailable,
       {"MOVED 3999 127.0.0.1:6381",
        "READONLY You can't write against a read only replica. script: 3a4f, on @user_script:9.",
        "ERR Error running script (call to f_1f): @user_script:9: @user_script: 9: -READONLY You "
        "can't write against a read only replica.",
        "UNBLOCKED force unblock from blocking operation, instance state changed (master -> "
        "replica?)",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "CLUSTERDOWN The cluster is down"}},
      {Remedy::later,
       Errc::unavailable,
       {"ASK 3999 127.0.0.1:6381", "LOADING Redis is loading the dataset in memory",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        "OOM command not allowed when used memory > 'maxmemory'. script: 3a4f, on @user_script:9.",
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist "
        "to disk.",
        "NOREPLICAS Not enough good replicas to write.", "ERR max number of clients reached"}},
      {Remedy::none,
       Errc::denied,
       {"NOAUTH Authentication required.",
        "WRONGPASS invalid username-password pair or user is disabled.",
        "NOPERM this user has no permissions to run the 'evalsha' command",
        "ERR The user executing the script can't run this command or subcommand script: 6351, on "
        "@user_script:1.",
        "ERR The user executing the script can't access at least one of the keys mentioned in the "
        "command arguments script: e7bd, on @user_script:1.",
        "ERR invalid password",
        "ERR AUTH <password> called without any password configured for the default user.",
        "ERR unknown command `EVALSHA`, with args beginning with: ",
        "ERR unknown command 'x', with args beginning with: 'READONLY' 'LOADING '",
        "DENIED Redis is running in protected mode"}},
      {Remedy::none,
       Errc::usage,
       {"WRONGTYPE Operation against a key holding the wrong kind of value",
        "ERR Error running script (call to f_1f): @user_script:9: WRONGTYPE Operation against a "
        "key",
        "ERR user_script:31: DLOCKDATA dlock:{k}:fence is not a record of dlock script: 3a4f, on "
        "@user_script:31.",
        "ERR DB index is out of range"}},
      {Remedy::none, Errc::protocol, {"ERR some unknown error", ""}},
  };
  for (const Row& row : rows)
    for (const char* text : row.texts) {
      INFO(text);
      CHECK(classify(text).remedy == row.remedy);
      CHECK(classify(text).code == row.code);
    }
}

TEST_CASE("a message shows neither our script nor its hash and lines") {
  const std::pair<const char*, const char*> rows[] = {
      {"ERR unknown command 'EVAL', with args beginning with: '#!lua name=x' '3' ",
       "ERR unknown command 'EVAL' ("},
      {"OOM command not allowed when used memory > 'maxmemory'. script: 3a4f, on @user_script:9.",
       "OOM command not allowed when used memory > 'maxmemory'. ("},
      {"ERR Error running script (call to f_1f): @user_script:9: @user_script: 9: -READONLY You "
       "can't write against a read only replica.",
       "db:6379: READONLY You can't write against a read only replica. ("},
      {"ERR user_script:31: DLOCKDATA dlock:{k} is no record script: 3a4f, on @user_script:31.",
       "db:6379: DLOCKDATA dlock:{k} is no record ("},
      {"NOSCRIPT No matching script. Please use EVAL.",
       "db:6379: NOSCRIPT No matching script. Pl"}};
  for (const auto& [text, shown] : rows) {
    const Error e = as_error("acquire", "db:6379", text);
    INFO(e.message);
    CHECK(e.message.find(shown) != std::string::npos);
    CHECK(e.message.find("user_script") == std::string::npos);
  }
}

TEST_CASE("a server's error text lets no terminal control sequence through") {
  const Error e = as_error("acquire", "db:6379", "ERR \x1b]0;title\x07" + std::string(500, 'x'));
  CHECK(e.message.find('\x1b') == std::string::npos);
  CHECK(e.message.find("\\x1b]0;title") != std::string::npos);
  CHECK(e.message.size() < 300);
}
