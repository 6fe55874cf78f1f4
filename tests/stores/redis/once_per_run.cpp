// SPDX-License-Identifier: Apache-2.0
// The program: --once-per among holders of the same time, and when dlock is killed around its note.
#include <sys/wait.h>
#include <csignal>
#include "faults.hpp"
#include "support/options.hpp"
#include "support/process.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

const std::string note{redis::scripts::note_start.sha};

// `dlock run --once-per 1h` of a job that writes a line.
struct Runs {
  Proxied p;
  TempDir dir;
  std::vector<std::string> mode{"--limit", "4"};

  Process start(const std::string& url) const {
    std::vector<std::string> words{
        program_from("DLOCK"), "run", "-q",         "-b", url, "--key", "k", "--ttl", "10m",
        "--op-timeout",        "60s", "--once-per", "1h"};
    words.insert(words.end(), mode.begin(), mode.end());
    words.insert(words.end(), {"--", "sh", "-c", "echo ran >>" + dir / "runs"});
    return Process::start({.argv = words});
  }
  int direct() const { return status_of(start(p.direct())); }
  static int status_of(Process process) {
    const auto status = process.wait(60);
    return status && WIFEXITED(*status) ? WEXITSTATUS(*status) : -1;
  }
  std::string ran() const { return read_file(dir / "runs"); }
  std::optional<RunStart> noted() const {
    return open_redis(p.direct())->starts(key("k")).value().last;
  }
};

}  // namespace

TEST_CASE("--once-per: readers and permits whose note comes late do not start a second time") {
  Runs r;
  for (const auto& mode : {std::vector<std::string>{"--limit", "4"}, {"-s"}}) {
    r.mode = mode;
    r.p.server.command({"FLUSHALL"});
    r.p.proxy.hold(note);
    Process late = r.start(r.p.url());
    REQUIRE(r.p.proxy.holds_one(60s));
    const std::string before = r.ran();
    CHECK(r.direct() == 0);
    r.p.proxy.let_go();
    CHECK(Runs::status_of(std::move(late)) == 75);
    CHECK(r.ran() == before + "ran\n");
  }
}

TEST_CASE(
    "--once-per: a dlock that is killed around its note has not run twice, but at most once") {
  Runs r;
  REQUIRE(r.direct() == 0);  // the scripts are known
  for (const bool carried_out : {false, true}) {
    CAPTURE(carried_out);
    r.p.server.command({"FLUSHALL"});
    if (carried_out) r.p.proxy.lose_reply(note, true);
    else r.p.proxy.hold(note);
    Process killed = r.start(r.p.url());
    REQUIRE((carried_out ? r.p.proxy.lost_one(60s) : r.p.proxy.holds_one(60s)));
    killed.signal(SIGKILL);
    REQUIRE(killed.wait(60));
    if (!carried_out) r.p.proxy.let_go();  // it arrives all the same, under a grant in force
    for (const Deadline until = Clock::now() + 60s; Clock::now() < until && !r.noted();)
      ::usleep(10'000);
    CHECK(r.direct() == 75);
    CHECK(r.ran() == "ran\n");
  }
}
