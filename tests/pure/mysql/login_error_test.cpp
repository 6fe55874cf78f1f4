// SPDX-License-Identifier: Apache-2.0
// Of what a server says of a login nothing is printed that may repeat the password.
#include <catch2/catch.hpp>
#include "mysql/client/server_error.hpp"

using namespace dlock;
using namespace dlock::mysql;

TEST_CASE("login: no prefix of the password is printed behind the first sentence") {
  const std::string secret = "S3cr3t. with: 'quotes', (and) more";
  for (const char* before :
       {"Access denied for user 'joe'@'db1' (using password: ",
        "Access denied for user 'joe'@'db1': ", "Access denied for user 'joe'@'db1'. It was "})
    for (std::size_t n = 0; n <= secret.size(); ++n) {
      const Error e =
          as_login_error("connect", "db1:3306", 1045, before + secret.substr(0, n), secret);
      CAPTURE(e.message);
      CHECK(e.code == Errc::denied);
      CHECK(e.message.starts_with(
          "connect at db1:3306: error 1045: Access denied for user 'joe'@'db1'"));
      CHECK(e.message.find("S3") == std::string::npos);
    }
  const Error echo = as_login_error("connect", "db1:3306", 1045, "not " + secret, secret);
  CHECK(echo.code == Errc::denied);
  CHECK(echo.message.find("S3") == std::string::npos);
}

TEST_CASE("login: what the library says is printed whole") {
  const std::string text =
      "Plugin x could not be loaded: /dir/x.so: cannot open shared object file";
  CHECK(as_login_error("connect", "db1:3306", 2059, text, "").message.find(text) !=
        std::string::npos);
}
