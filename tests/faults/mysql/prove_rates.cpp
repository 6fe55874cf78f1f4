// SPDX-License-Identifier: Apache-2.0
// One client: its rate beside that of raw statements.
#include <sched.h>
#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include "prove.hpp"

namespace dlock::prove {
namespace {

// Processor time that a process has used so far, in seconds. Other programs on the machine affect
// it less than wall-clock times.
double cpu_of(pid_t pid) {
  std::FILE* in = std::fopen(fmt::format("/proc/{}/stat", pid).c_str(), "re");
  char line[1024] = "";
  if (in) {
    (void)!std::fgets(line, sizeof line, in);
    std::fclose(in);
  }
  unsigned long user = 0, system = 0;
  const char* rest = std::strrchr(line, ')');
  if (rest)
    std::sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
  return static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// Rounds per second of a few statements over one connection, by mariadb-slap. A round of several
// statements is several queries to it.
double slap(MariadbServer& server, const std::string& statements, int per_round, long rounds) {
  const std::string command = fmt::format(
      "mariadb-slap --no-defaults --user=root --host=127.0.0.1 --port={} --concurrency=1 "
      "--number-of-queries={} --delimiter=';' "
      "--create-schema=slap --no-drop --csv --query=\"{}\" 2>/dev/null",
      server.port(), rounds * per_round, statements);
  std::FILE* out = ::popen(command.c_str(), "re");
  char line[512];
  double took = 0;
  while (out && std::fgets(line, sizeof line, out)) {
    const char* comma = std::strchr(line, ',');
    if (comma && (comma = std::strchr(comma + 1, ','))) took = std::atof(comma + 1);
  }
  if (out) ::pclose(out);
  return took > 0 ? static_cast<double>(rounds) / took : 0;
}

void uncontended(MariadbServer& server, const char* where, long n, double lease_wanted) {
  server.sql("CREATE DATABASE IF NOT EXISTS slap");
  server.sql("CREATE TABLE IF NOT EXISTS slap.c(k INT PRIMARY KEY, version BIGINT, state BLOB)");
  server.sql("INSERT IGNORE INTO slap.c VALUES(1,0,'')");
  Database db{server};
  const std::string swap =
      "UPDATE slap.c SET version=version+1,state=REPEAT('x',120) WHERE k=1 AND version>=0";
  struct Case {
    const char* recipe;
    std::string raw;
    double wanted;
  };
  for (const Case& c :
       {Case{"lease", swap + ";" + swap, lease_wanted},
        Case{"get-lock", "SELECT GET_LOCK('slap',0);SELECT RELEASE_LOCK('slap')", 0.8}}) {
    auto backend = open_mysql(db.url(), {}, c.recipe);
    const Key k = key("uncontended");
    release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
    const auto before = backend->counters().requests;
    Request asked = request(k);
    const auto cycle = [&] {
      asked.owner = Owner::random();
      release_or_fail(*backend, acquire_or_fail(*backend, asked));
    };
    double ours = 0, theirs = 0, our_cpu = 0, their_cpu = 0;
    constexpr int turns = 3;
    // the best of three each, interleaved, as other programs run here, too
    for (int i = 0; i < turns; ++i) {
      const double at_first = cpu_of(server.pid());
      const auto began = Clock::now();
      for (long j = 0; j < n; ++j) cycle();
      ours = std::max(ours, static_cast<double>(n) / seconds(Clock::now() - began));
      const double between = cpu_of(server.pid());
      theirs = std::max(theirs, slap(server, c.raw, 2, n));
      our_cpu += between - at_first;
      their_cpu += cpu_of(server.pid()) - between;
    }
    const double statements =
        static_cast<double>(backend->counters().requests - before) / static_cast<double>(turns * n);
    fmt::print(
        "{}, {}: {:.0f} acquire+release per s on one connection, {:.2f} statements each; "
        "mariadb-slap, raw: {:.0f}/s; ratio "
        "{:.2f} (wanted {}); processor time of the server {:.0f} and {:.0f} us each\n",
        where, c.recipe, ours, statements, theirs, theirs > 0 ? ours / theirs : 0, c.wanted,
        our_cpu * 1e6 / static_cast<double>(turns * n),
        their_cpu * 1e6 / static_cast<double>(turns * n));
    must(statements <= 2.01, "two statements: one takes, one gives back");
  }
}

// Later forks stay on one processor: servers on the first, clients on the second, as if they were
// two hosts. Otherwise chance decides whether an exchange crosses processors, which doubles its
// cost. With one processor there is no choice.
class OnOneCpu {
 public:
  explicit OnOneCpu(int which) {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &before_) && seen++ == which) CPU_SET(cpu, &one);
    if (CPU_COUNT(&one) == 1) ::sched_setaffinity(0, sizeof one, &one);
  }
  ~OnOneCpu() { ::sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_;
};

}  // namespace

// On servers with default buffers: the small ones of other tests fill with old versions of a row
// that changes ten thousand times a second, and then the server writes pages instead of answering.
void rates(bool full) {
  const auto measure = [](const char* where, long n, double lease_wanted,
                          MariadbServer::Setup setup) {
    setup.config = {"innodb_buffer_pool_size=128M", "innodb_log_file_size=96M"};
    std::optional<MariadbServer> server;
    {
      const OnOneCpu first{0};
      server.emplace(std::move(setup));
    }
    const OnOneCpu second{1};
    uncontended(*server, where, n, lease_wanted);
  };
  measure("data in memory", full ? 5000 : 500, 0.7, {});
  if (!full) return;
  measure("data on this disk", 2000, 0.85, {.on_disk = true});
  measure("every sync of this disk 1 ms longer", 1000, 0.85,
          {.environment = {"LD_PRELOAD=" SLOW_SYNC, "SYNC_DELAY_US=1000"}, .on_disk = true});
}

}  // namespace dlock::prove
