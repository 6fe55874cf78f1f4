// SPDX-License-Identifier: Apache-2.0
// The server's wall clock jumps. Exclusion is not promised then; that tokens rise is, and that people are told.
#include <cstdio>
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

class ShiftedServer {
 public:
  void shift(std::chrono::seconds by) {
    const std::int64_t ns = std::chrono::nanoseconds{by}.count();
    std::FILE* f = std::fopen(file().c_str(), "r+e");
    REQUIRE(f);
    std::fwrite(&ns, sizeof ns, 1, f);
    std::fclose(f);
  }

 private:
  std::string file() const { return dir_.path() + "/shift"; }
  std::string make_file() {
    std::FILE* f = std::fopen(file().c_str(), "we");
    const std::string zeros(4096, '\0');
    std::fwrite(zeros.data(), 1, zeros.size(), f);
    std::fclose(f);
    return "CLOCK_SHIFT_FILE=" + file();
  }
  TestDirectory dir_;

 public:
  RedisServer server{{.environment = {"LD_PRELOAD=" CLOCK_SHIFT, make_file()}}};
};

}  // namespace

TEST_CASE("the server's clock jumps an hour ahead: the lease is lost, the next token is higher") {
  ShiftedServer s;
  auto one = open_redis(s.server.url() + "?restart_grace=0"), two = open_redis(s.server.url() + "?restart_grace=0");
  const Key k = key("ahead");
  const Lease first = acquire_or_fail(*one, request(k, 30s));
  s.shift(1h);
  const Lease second = acquire_or_fail(*two, request(k, 30s));  // overlap: this is the stated weakness
  CHECK(second.token > first.token);
  CHECK(lost(one->renew(first, 30s)));
  s.shift(0h);
  CHECK(two->release(second) == Released::yes);
  CHECK(acquire_or_fail(*one, request(k, 30s)).token > second.token);  // though the clock is behind the last grant
}

TEST_CASE("the server's clock jumps an hour back: the lease does not end, inspect says why, force ends it") {
  ShiftedServer s;
  auto one = open_redis(s.server.url() + "?restart_grace=0"), two = open_redis(s.server.url() + "?restart_grace=0");
  const Key k = key("back");
  const Lease first = acquire_or_fail(*one, request(k, 30s));
  s.shift(-1h);
  const auto view = **two->inspect(k);
  REQUIRE(view.holders.size() == 1);
  CHECK(*view.holders[0].remaining > 50min);
  REQUIRE(view.notes.size() == 1);
  CHECK(view.notes[0].find("clock went back") != std::string::npos);
  CHECK(two->force_release(k, first.token) == Released::yes);
  CHECK(acquire_or_fail(*two, request(k, 30s)).token > first.token);
}
