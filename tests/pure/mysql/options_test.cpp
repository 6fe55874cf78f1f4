// SPDX-License-Identifier: Apache-2.0
#include "mysql/client/options.hpp"
#include <fcntl.h>
#include <sys/stat.h>
#include <catch2/catch.hpp>
#include <cstdlib>
#include "mysql/client/my_cnf.hpp"
#include "mysql/factory.hpp"
#include "support/temp_dir.hpp"

using namespace dlock;
using namespace dlock::mysql;

namespace {

Result<Options> parse(const std::string& url, std::size_t recipe = 0, const Settings& s = {}) {
  return parse_options(Url::parse(url).value(), recipes[recipe], s);
}
bool refused(const std::string& url, std::string_view item, std::size_t recipe = 0) {
  const auto o = parse(url, recipe);
  return !o && o.error().code == Errc::usage && o.error().message.find(item) != std::string::npos;
}
void write(const std::string& path, const std::string& text, mode_t mode) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  REQUIRE(::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  ::fchmod(fd, mode);
  ::close(fd);
}

}  // namespace

TEST_CASE("addresses") {
  const auto o = parse("mysql://u@h1,h2:3307/db").value();
  REQUIRE(o.servers.size() == 2);
  CHECK(o.servers[0].text() == "h1:3306");
  CHECK(o.servers[1].text() == "h2:3307");
  CHECK(o.user == "u");
  CHECK(o.database == "db");
  CHECK(o.prefix == "dlock:");
  CHECK(parse("mysql://h/db", 1)->prefix.empty());
  const auto s = parse("mysql+unix:///run/s?db=d").value();
  CHECK(s.servers[0].socket == "/run/s");
  CHECK(s.database == "d");
  CHECK(refused("mysql://h", "database"));
  CHECK(refused("mysql+unix:///run/s", "db"));
  CHECK(refused("mysql://h/d?db=e", "db"));
  CHECK(refused("mysql://h1,h2/d", "host", 1));
}

TEST_CASE("items") {
  CHECK(parse("mysql://h/d?wake=poll&clock_skew=5s")->clock_skew == std::chrono::seconds{5});
  CHECK(parse("mysql://h/d?wake=poll")->poll);
  CHECK(refused("mysql://h/d?wake=maybe", "wake"));
  CHECK(refused("mysql://h/d?wake=poll", "wake", 1));
  CHECK(refused("mysql://h/d?clock_skew=x", "clock_skew"));
  CHECK(refused("mysql://h/d?tls=maybe", "tls"));
  CHECK(refused("mysql://h/d?tls_ca=/f", "tls_ca"));
  CHECK(refused("mysql+unix:///s?db=d&tls=yes", "tls"));
  CHECK(refused("mysql://h/d?table=t", "table"));
  CHECK(refused("mysql://h/d?table=t", "key_column", 2));
  CHECK(refused("mysql://h/d?table=t;--&key_column=c", "table", 2));
  CHECK(refused("mysql://h/d?table=t&key_column=a%60b", "key_column", 2));
  CHECK(refused("mysql://h/d?table=t&key_column=c&where.a%60b=1", "where.", 2));
  CHECK(refused("mysql://h/d?where.a=1", "where.", 2));
  const auto q =
      parse("mysql://h/d?table=QRTZ_LOCKS&key_column=LOCK_NAME&where.SCHED_NAME=it's", 2).value();
  CHECK(q.conditions == std::vector<std::pair<std::string, std::string>>{{"SCHED_NAME", "it's"}});
  CHECK(refused("mysql://h/d?stale_after=0", "stale_after", 3));
  CHECK(parse("mysql://h/d?stale_after=1h", 3)->stale_after == std::chrono::hours{1});
  CHECK(refused("mysql://h/d?prefix=" + std::string(51, 'x'), "prefix"));
}

TEST_CASE("~/.my.cnf: user, password and TLS files of [client], nothing else") {
  const auto d = parse_client_defaults(
      "# comment\n[mysqld]\nuser=no\n[client]\nuser = me\npassword=\"se#cret\\n\"\nssl_ca=/ca  # "
      "c\ninit-command=DROP\n[mysql]\nuser=x\n");
  CHECK(d.user == "me");
  CHECK(d.password == "se#cret\n");
  CHECK(d.ssl_ca == "/ca");
  CHECK_FALSE(d.ssl_key);
  CHECK(parse_client_defaults("").user == std::nullopt);
  CHECK(parse_client_defaults("[client]\npassword=a b").password == "a b");

  const test::TempDir home;
  ::setenv("HOME", home.path().c_str(), 1);
  ::unsetenv("MYSQL_PWD");
  write(home / ".my.cnf", "[client]\nuser=me\npassword=p\n", 0600);
  CHECK(parse("mysql://h/d")->user == "me");
  CHECK(parse("mysql://h/d")->password == "p");
  CHECK(parse("mysql://other@h/d")->password.empty());
  CHECK(parse("mysql://me:url@h/d")->password == "url");
  Settings s;
  s.password = "setting";
  CHECK(parse("mysql://me:url@h/d", 0, s)->password == "setting");
  write(home / ".my.cnf", "[client]\npassword=p\n", 0644);
  CHECK(parse("mysql://h/d").error().code == Errc::config);
  write(home / ".my.cnf", "[client]\nuser=me\n", 0666);
  CHECK(parse("mysql://h/d").error().code == Errc::config);
  write(home / ".my.cnf", "[client]\nuser=me\n", 0644);
  CHECK(parse("mysql://h/d").has_value());
  ::unlink((home / ".my.cnf").c_str());
  ::setenv("MYSQL_PWD", "env", 1);
  CHECK(parse("mysql://h/d")->password == "env");
  ::unsetenv("MYSQL_PWD");
}
