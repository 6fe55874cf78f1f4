// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>
#include "common/holders.hpp"
#include "core/key.hpp"
#include "mysql/client/connection.hpp"
#include "mysql/client/server_error.hpp"
#include "mysql_schema/schema.hpp"

using namespace dlock;
using namespace dlock::mysql;
using namespace std::string_view_literals;

TEST_CASE("holders survive encoding, and other text is refused") {
  Holders h;
  h.key = "a b\n%";
  LockState::Holder one;
  one.owner = Owner::random();
  one.token = UINT64_MAX;
  one.deadline = 5;
  one.meta = "host=h&reason=a%7Cb";
  LockState::Holder two;
  two.owner = Owner::random();
  two.mode = Mode::permit;
  two.slot = 3;
  h.list = {one, two};
  h.granted = {{one.owner, 1}, {two.owner, 2}};
  const std::string text = encode(h);
  const auto back = decode(text);
  REQUIRE(back);
  CHECK(back->key == h.key);
  CHECK(back->list == h.list);
  CHECK(back->granted == h.granted);
  CHECK(decode("")->list.empty());
  for (const std::string& bad : {std::string{"dlock2 k\n"}, text.substr(0, text.size() - 1),
                                 text + "X y\n", text + "H 1\n", std::string{"{}"}}) {
    CAPTURE(bad);
    CHECK_FALSE(decode(bad));
  }
}

TEST_CASE("values in statements") {
  CHECK(hex("a'\\\0"sv.substr(0, 4)) == "x'61275c00'");
  CHECK(text_hex("\xc3\xa4") == "_utf8mb4 x'c3a4'");
}

TEST_CASE("the remedy for each server error") {
  for (const unsigned n : {1205u, 1213u, 3058u, 3572u}) CHECK(classify(n).remedy == Remedy::later);
  for (const unsigned n : {1040u, 1047u, 2003u}) CHECK(classify(n).remedy == Remedy::elsewhere);
  // an option that prevents a statement: one goes away by itself, the others do not
  for (const char* option : {"--read-only", "--super-read-only", "--innodb-read-only"})
    CHECK(classify(1290, fmt::format("The server is running with the {} option so it cannot "
                                     "execute this statement",
                                     option))
              .remedy == Remedy::elsewhere);
  for (const char* option : {"NO_ENGINE_SUBSTITUTION", "--skip-grant-tables"}) {
    const auto e = classify(1290, fmt::format("The server is running with the {} option", option));
    CHECK(e.remedy == Remedy::none);
    CHECK(e.code == Errc::cannot_create);
  }
  for (const unsigned n : {1286u, 3161u}) CHECK(classify(n).code == Errc::cannot_create);
  for (const unsigned n : {2006u, 2013u, 1927u, 1053u}) {
    CHECK(classify(n).remedy == Remedy::reconnect);
    CHECK(classify(n).code == Errc::timed_out);
  }
  for (const unsigned n : {1044u, 1045u, 1142u, 2026u, 2059u})
    CHECK(classify(n).code == Errc::denied);
  CHECK(classify(1146).remedy == Remedy::create);
  CHECK(classify(65000).code == Errc::protocol);
  CHECK(as_error("renew", "h:1", 1045, "x\ny").message.find('\n') == std::string::npos);
}

TEST_CASE("the manual has the SQL that is built in") {
  std::FILE* f = std::fopen(MANUAL, "re");
  REQUIRE(f);
  std::string text(200'000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), f));
  std::fclose(f);
  for (const auto sql :
       {schema::lease, schema::get_lock, schema::for_update, schema::insert, schema::version})
    CHECK(text.find(sql) != text.npos);
}
