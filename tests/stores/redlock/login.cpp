// SPDX-License-Identifier: Apache-2.0
// Passwords, ACL users and TLS at each master. A master that refuses the login is one vote less, no
// more; messages name it and say why.
#include <sys/wait.h>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include "redlock_faults.hpp"
#include "support/certificates.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

constexpr const char* secret = "secret-canary";

// The words of the line in the README, so that test and README cannot differ.
std::vector<std::string> documented() {
  std::ifstream readme{BACKENDS_REDLOCK_README};
  for (std::string line; std::getline(readme, line);)
    if (line.starts_with("ACL SETUSER dlock ")) {
      std::istringstream in{line};
      std::vector<std::string> words;
      for (std::string word; in >> word;)
        words.push_back(word == ">PASSWORD" ? std::string{">"} + secret : word);
      return words;
    }
  FAIL("no ACL line in the README");
  return {};
}
void set_user(RedisServer& server, const std::vector<std::string>& words) {
  const Reply r = server.command(std::vector<std::string_view>{words.begin(), words.end()});
  INFO(r.text);
  REQUIRE(r.text == "OK");
}

struct TlsMasters {
  TestDirectory dir;
  Authority ours{dir.path(), "ours"}, theirs{dir.path(), "theirs"};

  // `odd`: the certificates of these masters have another authority, or name another host.
  std::unique_ptr<RedlockMasters> masters(std::vector<std::size_t> odd = {},
                                          bool other_authority = true) const {
    return std::make_unique<RedlockMasters>(RedlockMasters::Setup{.tls = [&](std::size_t i) {
      const bool is_odd = std::find(odd.begin(), odd.end(), i) != odd.end();
      const Authority& by = is_odd && other_authority ? theirs : ours;
      const auto files = by.issue(fmt::format("master{}", i),
                                  is_odd && !other_authority ? "DNS:db7.example" : "DNS:localhost");
      return std::vector<std::string>{"tls-cert-file " + files.cert, "tls-key-file " + files.key,
                                      "tls-ca-cert-file " + ours.file(), "tls-auth-clients no"};
    }});
  }
  std::string items() const { return "?tls=yes&restart_grace=0&tls_ca=" + ours.file(); }
};

Error refusal(const std::string& url, const Settings& settings = patient()) {
  auto backend = open_redlock(url, settings);
  const auto p = (*backend->enqueue(request(key("k"), 300s)))->poll(0s);
  REQUIRE_FALSE(p);
  INFO(p.error().message);
  CHECK(p.error().message.find("canary") == std::string::npos);
  return p.error();
}

// What inspect and --doctor report of this master.
std::string note_about(Backend& b, const std::string& master) {
  const auto v = b.inspect(key("k"));
  REQUIRE((v && *v));
  for (const std::string& n : (**v).notes)
    if (n.starts_with(master + ": ")) return n;
  return "nothing";
}
std::string finding_about(Backend& b, const std::string& master) {
  const auto found = b.doctor();
  REQUIRE(found);
  for (const Finding& f : *found)
    if (f.what == "answer of " + master && f.level == Finding::Level::bad) return f.seen;
  return "nothing";
}

void grants_and_tells(const std::string& url, const Settings& settings, const std::string& odd,
                      const std::string& why) {
  auto backend = open_redlock(url, settings), other = open_redlock(url, settings);
  const Lease l = granted_within(*backend, request(key("k"), 300s));
  CHECK(other->check(key("k"), l.token) == Validity::valid);
  // Masters that a busy machine left out at first take part after a renewal.
  std::string note, finding;
  CHECK(eventually([&] {
    CHECK(kept(backend->renew(l, 300s)));
    note = note_about(*other, odd);
    return note.find("?") != note.npos && note.find(why) != note.npos &&
           (**other->inspect(key("k"))).notes.front() == "4/5 nodes agree";
  }));
  finding = finding_about(*other, odd);
  INFO(note << "\n" << finding);
  CHECK(finding.find(why) != finding.npos);
  CHECK((note + finding).find("canary") == std::string::npos);
  CHECK(backend->release(l) == Released::yes);
}

// Whether a release wakes a waiter, at one of ten: it may look by itself at that very moment.
bool is_woken(Backend& holder, Backend& other) {
  for (int i = 0; i < 10; ++i) {
    const Lease held = granted_within(holder, request(key("k"), 300s));
    const auto waiter = *other.enqueue(request(key("k"), 300s));
    REQUIRE(std::holds_alternative<Waiting>(answer_of(*waiter, 100ms)));
    const auto before = other.counters().wakeups;
    REQUIRE(holder.release(held) == Released::yes);
    REQUIRE(other.release(granted_within(*waiter)) == Released::yes);
    if (other.counters().wakeups > before) return true;
  }
  return false;
}

int status_of(const std::string& command) { return WEXITSTATUS(std::system(command.c_str())); }

}  // namespace

TEST_CASE(
    "an ACL user with its password in the URL or elsewhere: the documented rights are enough, at "
    "each master") {
  RedlockMasters m{{.config = {"maxmemory-policy noeviction"}}};
  for (auto& s : m.servers) set_user(*s, documented());
  Settings apart = patient();
  apart.password = secret;
  auto one = open_redlock(m.url_of("dlock@", "127.0.0.1", "?restart_grace=0&prefix=jobs:"), apart);
  auto two = open_redlock(
      m.url_of(fmt::format("dlock:{}@", secret), "127.0.0.1", "?restart_grace=0&prefix=jobs:"),
      patient());
  const Lease held = granted_within(*one, request(key("k"), 300s));
  auto waiter = *two->enqueue(request(key("k"), 300s));
  REQUIRE(std::holds_alternative<Waiting>(answer_of(*waiter)));
  CHECK(kept(one->renew(held, 300s)));
  REQUIRE(eventually([&] {
    std::size_t there = 0;
    for (std::size_t i = 0; i < m.size(); ++i)
      there += m.value(i, "jobs:k").starts_with(held.owner.hex());
    return there == 5;
  }));
  m.servers[3]->command({"DEL", "jobs:k"});
  // taken again
  CHECK(eventually([&] { return kept(one->renew(held, 300s)) && !m.value(3, "jobs:k").empty(); }));
  CHECK(list(*two).value().size() == 1);
  CHECK(two->force_release(key("other"), 1) == Released::was_not_held);
  CHECK(one->release(held) == Released::yes);
  const Lease next = granted_within(*waiter);
  CHECK(next.token > held.token);
  CHECK(two->release(next) == Released::yes);
  CHECK(is_woken(*one, *two));
  for (const char* items : {"?prefix=jobs:", ""}) {
    const auto found = open_redlock(m.url_of("dlock@", "127.0.0.1", items), apart)->doctor();
    REQUIRE(found);
    for (const Finding& f : *found) {
      CAPTURE(items, f.what, f.seen);
      if (f.what.starts_with("rights")) CHECK(f.level == Finding::Level::good);
    }
  }
}

TEST_CASE("a wrong password at all or at most masters is denied at once, and exits as with redis") {
  RedlockMasters m;
  for (auto& s : m.servers) set_user(*s, documented());
  Settings settings = patient();
  const std::string as_dlock = m.url_of("dlock@", "127.0.0.1", "?restart_grace=0&prefix=jobs:");
  settings.password = "wrong-canary";
  CHECK(refusal(as_dlock, settings).code == Errc::denied);
  CHECK(refusal(m.url_of("nobody@", "127.0.0.1", "?restart_grace=0"), settings).code ==
        Errc::denied);
  CHECK(refusal(m.url(), settings).code == Errc::denied);  // the default user has no password
  const auto began = Clock::now();
  auto backend = open_redlock(as_dlock, settings);
  const auto inspected = backend->inspect(key("k"));
  REQUIRE_FALSE(inspected);
  CHECK(inspected.error().code == Errc::denied);
  CHECK(Clock::now() - began < long_enough / 2);  // no retries until the end of its time

  const std::string redis = fmt::format("{}?restart_grace=0&prefix=jobs:", m.servers[0]->url());
  for (const char* verb : {"run -n --key jobs:k -b '{}' -- true", "inspect k -b '{}'",
                           "check --key k --token 5 -b '{}'"}) {
    const auto status = [&](std::string url) {
      url.insert(url.find("//") + 2, "dlock@");
      return status_of(fmt::format("DLOCK_PASSWORD=wrong-canary {} {} >/dev/null 2>&1", DLOCK,
                                   fmt::format(fmt::runtime(verb), url)));
    };
    CAPTURE(verb);
    CHECK(status(m.url("?restart_grace=0&prefix=jobs:")) == 77);
    CHECK(status(redis) == 77);
  }
}

TEST_CASE("another password at one of five masters: granted by the others, and reported") {
  RedlockMasters m;
  const auto set_password = [&](std::size_t i, const char* to) {
    REQUIRE(m.servers[i]->command({"CONFIG", "SET", "requirepass", to}).text == "OK");
  };
  for (std::size_t i = 0; i < m.size(); ++i) set_password(i, i == 2 ? "another-canary" : secret);
  Settings settings = patient();
  settings.password = secret;
  grants_and_tells(m.url(), settings, m.name(2), "WRONGPASS");
  // With two more unreachable there is no majority. That is no denial: they may come back.
  m.servers[0]->kill();
  m.servers[1]->kill();
  CHECK(refusal(m.url(), settings).code == Errc::unavailable);
  m.servers[0]->start();
  m.servers[1]->start();
  // A third that refuses the login makes it one.
  for (const std::size_t i : {0, 1}) set_password(i, "another-canary");
  CHECK(refusal(m.url(), settings).code == Errc::denied);
}

TEST_CASE(
    "rights revoked at one master while holding: the renewal goes on with the others; at most "
    "masters: denied") {
  RedlockMasters m;
  for (auto& s : m.servers) set_user(*s, documented());
  auto backend = open_redlock(
      m.url_of(fmt::format("dlock:{}@", secret), "127.0.0.1", "?restart_grace=0&prefix=jobs:"),
      patient());
  const Lease l = granted_within(*backend, request(key("k"), 300s));
  REQUIRE(kept(backend->renew(l, 300s)));
  m.servers[4]->command({"ACL", "SETUSER", "dlock", "-evalsha", "-eval"});
  for (int i = 0; i < 3; ++i) CHECK(kept(backend->renew(l, 300s)));
  for (const std::size_t i : {0, 2})
    m.servers[i]->command({"ACL", "SETUSER", "dlock", "-evalsha", "-eval"});
  const auto renewal = backend->renew(l, 300s);
  REQUIRE_FALSE(renewal);  // not lost: the deadline stays
  INFO(renewal.error().message);
  CHECK(renewal.error().message.find("canary") == std::string::npos);
  for (const std::size_t i : {0, 2})
    m.servers[i]->command({"ACL", "SETUSER", "dlock", "+evalsha", "+eval"});
  CHECK(kept(renewed(*backend, l, 300s)));
}

TEST_CASE(
    "a certificate of another authority or host at one of five masters: granted by the others, and "
    "reported") {
  const TlsMasters t;
  for (const bool authority : {true, false}) {
    CAPTURE(authority);
    const auto m = t.masters({3}, authority);
    grants_and_tells(m->url_of("", "localhost", t.items()), patient(), m->name(3, "localhost"),
                     authority ? "certificate refused" : "hostname mismatch");
  }
  const auto most = t.masters({1, 3, 4});
  CHECK(refusal(most->url_of("", "localhost", t.items())).code == Errc::denied);
}
