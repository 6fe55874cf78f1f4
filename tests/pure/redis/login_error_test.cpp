// SPDX-License-Identifier: Apache-2.0
// What a server says of a login may repeat the password, or as much of it as it prints of a
// command.
#include <catch2/catch.hpp>
#include "redis/wire/reply.hpp"

using namespace dlock;
using namespace dlock::redis;

TEST_CASE("login: no prefix of the password is printed, and each gives the same error") {
  const std::string secret = "S3cr3t. with: 'quotes', (and) LOADING script NOAUTH";
  struct Row {
    const char *before, *behind;
    Errc code;
    const char* shown;
  };
  const Row rows[] = {
      {"ERR unknown command `AUTH`, with args beginning with: `", "`, ", Errc::denied,
       "ERR unknown command `AUTH`"},
      {"ERR unknown command 'AUTH', with args beginning with: '", "", Errc::denied,
       "ERR unknown command 'AUTH'"},
      {"WRONGPASS invalid username-password pair or user is disabled. ", "", Errc::denied,
       "WRONGPASS invalid username-password pair or user is disabled"},
      {"ERR invalid password (", ")", Errc::denied, "ERR invalid password"},
      {"LOADING Redis is loading the dataset in memory\n", "", Errc::unavailable,
       "LOADING Redis is loading the dataset in memory"},
      {"ERR something else; ", "", Errc::protocol, "ERR something else"},
  };
  for (const Row& row : rows)
    for (std::size_t n = 0; n <= secret.size(); ++n) {
      const std::string text = row.before + secret.substr(0, n) + row.behind;
      CAPTURE(text);
      const Error e = as_login_error("log in", "db:6379", text, secret);
      CHECK(e.code == row.code);
      CHECK(e.message == as_login_error("log in", "db:6379", row.shown, secret).message);
      CHECK(e.message.find(std::string{"log in at db:6379: "} + row.shown) == 0);
    }
}

TEST_CASE("login: of a sentence that has the password the first word is printed") {
  const Error e =
      as_login_error("log in", "db:6379", "ERR invalid password S3cret given", "S3cret");
  CHECK(e.code == Errc::denied);
  CHECK(e.message == "log in at db:6379: ERR");
  const Error two =
      as_login_error("log in", "db:6379", "ERR invalid password S3. cret given", "S3. cret");
  CHECK(two.message == "log in at db:6379: ERR");
  const Error none = as_login_error("log in", "db:6379", "ERR invalid password", "");
  CHECK(none.message == "log in at db:6379: ERR invalid password");
}
