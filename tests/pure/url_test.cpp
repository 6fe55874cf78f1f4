// SPDX-License-Identifier: Apache-2.0
#include "core/url.hpp"
#include <catch2/catch.hpp>
#include "core/text.hpp"
#include "pure/message.hpp"
#include "pure/random.hpp"

using namespace dlock;
using namespace dlock::test;
using Catch::Contains;

namespace {

// A URL as one line: scheme|user|password|host:port,...|path|name=value&...
std::string parts(const Url& u) {
  std::string out = u.scheme + "|" + u.user + "|" + u.password + "|";
  for (const auto& host : u.hosts) {
    if (&host != &u.hosts.front()) out += ",";
    out += host.name;
    if (host.port) out += ":" + std::to_string(*host.port);
  }
  out += "|" + u.path + "|";
  for (const auto& [name, value] : u.items) {
    if (&name != &u.items.front().first) out += "&";
    out.append(name).append("=").append(value);
  }
  return out;
}
std::string parts(const Result<Url>& r) { return r ? parts(*r) : "error: " + r.error().message; }

}  // namespace

TEST_CASE("the forms of a backend URL") {
  struct Row {
    std::string text, parts, redacted;
  };
  const Row table[] = {
      {"file:", "file|||||", "file:"},
      {"file://", "file|||||", "file:"},
      {"file:/dir", "file||||/dir|", "file:///dir"},
      {"file:///dir", "file||||/dir|", "file:///dir"},
      {"file:dir", "file||||dir|", "file:dir"},
      {"file:a/b", "file||||a/b|", "file:a/b"},
      {"file://host/x", "file|||host|/x|", "file://host/x"},
      {"file:///a b%20c%25/%E9", "file||||/a b c%/\xe9|", "file:///a%20b%20c%25/%E9"},
      {"file:////x", "file||||//x|", "file:////x"},
      {"FILE:/Dir", "file||||/Dir|", "file:///Dir"},
      {"redis://h", "redis|||h||", "redis://h"},
      {"redis://h/", "redis|||h|/|", "redis://h/"},
      {"redis://u@h:1/0", "redis|u||h:1|/0|", "redis://u@h:1/0"},
      {"redis://u:p@h", "redis|u|p|h||", "redis://u:***@h"},
      {"redis://:p@h", "redis||p|h||", "redis://:***@h"},
      {"redis://u:@h", "redis|u||h||", "redis://u@h"},
      {"redis://@h", "redis|||h||", "redis://h"},
      {"redis://u%3A%40:p%2F@x:y@h", "redis|u:@|p/@x:y|h||", "redis://u%3A%40:***@h"},
      {"rediss://h:65535/15?tls=yes", "rediss|||h:65535|/15|tls=yes",
       "rediss://h:65535/15?tls=yes"},
      {"redis+unix:///sock?db=1", "redis+unix||||/sock|db=1", "redis+unix:///sock?db=1"},
      {"redis+sentinel://h1,h2:26379/MASTER/0", "redis+sentinel|||h1,h2:26379|/MASTER/0|",
       "redis+sentinel://h1,h2:26379/MASTER/0"},
      {"redis://[::1]:6379", "redis|||::1:6379||", "redis://[::1]:6379"},
      {"postgresql://%2Frun%2Fpg%3A:1,h/d", "postgresql|||/run/pg::1,h|/d|",
       "postgresql://%2Frun%2Fpg%3A:1,h/d"},
      {"redis://[2001:db8::1],[::ffff:10.0.0.1]:7", "redis|||2001:db8::1,::ffff:10.0.0.1:7||",
       "redis://[2001:db8::1],[::ffff:10.0.0.1]:7"},
      {"redis://u@[fe80::1%25eth0]:1/0", "redis|u||fe80::1%eth0:1|/0|",
       "redis://u@[fe80::1%25eth0]:1/0"},
      {"zookeeper://h1,h2/chroot/x", "zookeeper|||h1,h2|/chroot/x|", "zookeeper://h1,h2/chroot/x"},
      {"mysql://u@my_db-1.example.org:3306/DB", "mysql|u||my_db-1.example.org:3306|/DB|",
       "mysql://u@my_db-1.example.org:3306/DB"},
      {"mysql+unix://user@/sock?db=DB", "mysql+unix|user|||/sock|db=DB",
       "mysql+unix://user@/sock?db=DB"},
      {"mysql+unix://user:pw@/s", "mysql+unix|user|pw||/s|", "mysql+unix://user:***@/s"},
      {"x:?a=1&b=2", "x|||||a=1&b=2", "x:?a=1&b=2"},
      {"x:?prefix=&where.COL=a%26b", "x|||||prefix=&where.COL=a&b", "x:?prefix=&where.COL=a%26b"},
      {"x:?a=b=c?d/e+f", "x|||||a=b=c?d/e+f", "x:?a=b%3Dc%3Fd/e+f"},
      {"x:?", "x|||||", "x:"},
      {"x://h?a=1&", "x|||h||a=1", "x://h?a=1"},
      {"x://h?password=p&AUTH=q&my_secret=r&token=s&pwd=t",
       "x|||h||password=p&AUTH=q&my_secret=r&token=s&pwd=t",
       "x://h?password=***&AUTH=***&my_secret=***&token=***&pwd=***"},
      {"x://h?password_file=/p&key_column=k", "x|||h||password_file=/p&key_column=k",
       "x://h?password_file=/p&key_column=k"},
      // The scheme is missing: it parses, and still shows no password.
      {"root:hunter2@h/db", "root||||hunter2@h/db|", "root:***@h/db"},
  };
  for (const Row& row : table) {
    CAPTURE(row.text);
    const auto url = Url::parse(row.text);
    CHECK(parts(url) == row.parts);
    REQUIRE(url);
    CHECK(url->redacted() == row.redacted);
  }
  const auto url = Url::parse("x:?a=1&b=").value();
  CHECK(url.item("a") == "1");
  CHECK(url.item("b") == "");
  CHECK_FALSE(url.item("c"));
}

TEST_CASE("the error for a broken URL names the part, and never the password") {
  struct Row {
    std::string text, shown, what;
  };
  const Row table[] = {
      {"", "''", "no scheme"},
      {"/var/lib/dlock", "'/var/lib/dlock'", "no scheme"},
      {":x", "':x'", "scheme"},
      {"1x:y", "'1x:y'", "scheme"},
      {"a b:y", "'a b:y'", "scheme"},
      {"a_b:y", "'a_b:y'", "scheme"},
      {"redis://h#x", "'redis://h#x'", "fragment"},
      {"redis://u:hunter2#x@h", "'redis://u:***@h'", "fragment"},
      {"redis://u:p@hunter2@h:0", "'redis://u:***@h:0'", "1 to 65535"},
      {"redis://u:hunter2@h:0", "'redis://u:***@h:0'", "1 to 65535"},
      {"redis://h:65536", "'redis://h:65536'", "1 to 65535"},
      {"redis://h:", "'redis://h:'", "1 to 65535"},
      {"redis://h:-1", "'redis://h:***'", "1 to 65535"},
      {"redis://u:hunter2", "'redis://u:***'", "1 to 65535"},
      {"redis://h1:1,u:hunter2,h3/0", "'redis://h1:1,u:***/0'", "1 to 65535"},
      {"redis://[::1]:hunter2", "'redis://[::1]:***'", "1 to 65535"},
      {"redis://[::1]:", "'redis://[::1]:'", "1 to 65535"},
      {"redis://::1/0", "'redis://:***/0'", "host is empty"},
      {"redis://2001:db8::1/0", "'redis://2001:***/0'", "1 to 65535"},
      {"redis://:6379", "'redis://:6379'", "host is empty"},
      {"redis://h1,,h2", "'redis://h1,,h2'", "host is empty"},
      {"redis://h1,", "'redis://h1,'", "host is empty"},
      {"redis://,h1", "'redis://,h1'", "host is empty"},
      {"redis://u@,h1", "'redis://u@,h1'", "host is empty"},
      {"redis://[::1", "'redis://[:***'", "no ']'"},
      {"redis://[]", "'redis://[]'", "IPv6"},
      {"redis://[10.0.0.1]", "'redis://[10.0.0.1]'", "IPv6"},
      {"redis://[::g]", "'redis://[::g]'", "IPv6"},
      {"redis://[::1]x", "'redis://[::1]x'", "after ']'"},
      {"redis://h%41", "'redis://h%41'", "letters, digits"},
      {"redis://h h", "'redis://h h'", "letters, digits"},
      {"redis://h:1/%2", "'redis://h:1/%2'", "path has a '%'"},
      {"redis://u%zz@h", "'redis://u%zz@h'", "user has a '%'"},
      {"redis://u:hunter2%@h", "'redis://u:***@h'", "password has a '%'"},
      {"redis://u:hunter2%00@h", "'redis://u:***@h'", "password has a control"},
      {"file:/a%0Ab", "'file:/a%0Ab'", "path has a control"},
      {"file:/a\nb", "'file:/a\\x0ab'", "control"},
      {"file:/a\x7f", "'file:/a\\x7f'", "control"},
      {"x:?a", "'x:?a'", "NAME=VALUE"},
      {"x:?=1", "'x:?=1'", "NAME=VALUE"},
      {"x:?a=1&&b=2", "'x:?a=1&&b=2'", "NAME=VALUE"},
      {"x:?a=1&b=2&a=3", "'x:?a=1&b=2&a=3'", "'a' occurs twice"},
      {"x:?a=1&%61=3", "'x:?a=1&%61=3'", "'a' occurs twice"},
      {"x:?a=%", "'x:?a=%'", "query has a '%'"},
      {"x:?password=hunter2&pass%77ord=%", "'x:?password=***&pass%77ord=***'", "query has a '%'"},
      {"x:?p%zz=hunter2", "'x:?p%zz=***'", "query has a '%'"},
      {"x:?a#password=hunter2", "'x:?a#password=***'", "fragment"},
      {"root:hunter2@h#", "'root:***@h#'", "fragment"},
      {"hunter2@h", "'***@h'", "no scheme"},
  };
  for (const Row& row : table) {
    CAPTURE(row.text);
    const auto r = Url::parse(row.text);
    REQUIRE_FALSE(r);
    CHECK(is_good_message(r.error()));
    CHECK_THAT(r.error().message,
               Contains("backend URL " + row.shown) && Contains(row.what) && !Contains("hunter2"));
  }
  CHECK_FALSE(Url::parse(std::string_view("x:\0", 3)));
  const auto huge = Url::parse(std::string(1 << 20, 'x'));
  REQUIRE_FALSE(huge);
  CHECK(is_good_message(huge.error()));
}

TEST_CASE("random URLs: a valid one survives redaction, an invalid one keeps its secret") {
  Random random{seed()};
  static constexpr std::string_view tails[] = {"@h:1/0", "@h1,[::1]:26379/m/0?db=1&recipe=fair",
                                               "@/sock?db=x%20y", "/x", "@h?prefix=a@b"};
  std::size_t good = 0;
  for (int i = 0; i < 30'000; ++i) {
    const std::string text =
        random.one_in(4) ? random.bytes(60)
                         : random.damaged("redis://u:pw" + std::string{tails[random.below(5)]});
    const auto url = Url::parse(text);
    if (!url) {
      if (!is_good_message(url.error())) FAIL(printable(text) << ": " << url.error().message);
      continue;
    }
    ++good;
    const std::string shown = url->redacted();
    if (printable(shown) != shown) FAIL(printable(text));
    Url without = *url;
    if (!without.password.empty()) without.password = "***";
    // the only names that a mutation can turn into a secret's
    for (auto& [name, value] : without.items)
      if (shown.find("=***") != shown.npos) value = "***";
    if (without.hosts.empty() && !without.path.starts_with('/') &&
        without.path.find('@') != without.path.npos)
      continue;
    if (shown.find("=***") == shown.npos && parts(Url::parse(shown)) != parts(without))
      FAIL(printable(text) << " became " << shown);

    const std::string secret =
        "redis://u:Hunter2/x?y,[z" + random.damaged(std::string{tails[random.below(3)]});
    const auto broken = Url::parse(secret);
    const std::string said = broken ? broken->redacted() : broken.error().message;
    if (secret.find('@') != secret.npos && said.find("Hunter2") != said.npos)
      FAIL(printable(secret) << " became " << said);
  }
  CHECK(good > 1000);
}
