// SPDX-License-Identifier: Apache-2.0
// Redlock on five real masters: its grants under random faults.
// redlock_prove [--full] [PART...]
//
// Parts: faults, node.
// With NODE_MODULES in the environment, the directory of `npm install redlock ioredis`, node:
// node-redlock and dlock exclude each other.
#include "support/prove.hpp"
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <random>
#include "stores/contention.hpp"
#include "support/redlock_masters.hpp"

using namespace dlock;
using namespace dlock::prove;
using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

// Six clients behind proxies. At most two of five masters suffer a fault that takes them away at
// the same time.
void faults() {
  const long wanted = full ? 10'000 : 400;
  const unsigned seed = std::random_device{}();
  RedlockMasters m{
      {.config = {"appendonly yes", "appendfsync always", "auto-aof-rewrite-percentage 0"},
       .proxied = true}};
  Settings settings;
  settings.op_timeout = settings.connect_timeout = 300ms;
  Contention clients{{.open = [&](unsigned) { return open_redlock(m.proxied_url(), settings); },
                      .ttl = 2s,
                      .seed = seed}};
  long count = 0;
  std::minstd_rand random{seed};
  const Deadline end = later(Clock::now(), full ? Duration{20min} : Duration{60s});
  while (!clients.had_enough(wanted, wanted / 4, end)) {
    // One or two masters at a time; the others answer.
    const std::size_t first = random() % 5, second = (first + 1 + random() % 4) % 5;
    const auto kind = random() % 6;
    const auto pause = static_cast<useconds_t>(5'000 + random() % 60'000);
    for (const std::size_t i : {first, second}) {
      if (i == second && random() % 2 == 0) continue;
      ++count;
      switch (kind) {
        case 0: m.proxies[i]->cut(); break;
        case 1: m.proxies[i]->lose_reply("EVALSHA"); break;
        case 2: m.proxies[i]->lose_reply("EVALSHA", true); break;
        case 3: m.servers[i]->command({"SCRIPT", "FLUSH"}); break;
        case 4:
          m.servers[i]->freeze();
          ::usleep(pause);
          m.servers[i]->thaw();
          break;
        default:
          m.servers[i]->kill();
          ::usleep(pause);
          m.servers[i]->start();  // with its data
          break;
      }
    }
    ::usleep(pause);
  }
  const std::string violations = clients.violations();
  fmt::print("random faults of masters, seed {}: {} grants, {} faults, {} errors, {} lost\n", seed,
             clients.grants(), count, clients.errors, clients.lost);
  must(clients.grants() >= wanted / 4, "grants");
  must(violations.empty(), violations);
}

void node() {
  const char* modules = std::getenv("NODE_MODULES");
  if (!modules || !installed("node")) {
    fmt::print("node-redlock: not tested (NODE_MODULES is not set, or node is not installed)\n");
    return;
  }
  RedlockMasters m;
  const auto five = open_redlock(m.url());
  std::string ports;
  for (const auto& s : m.servers) ports += fmt::format("{}{}", ports.empty() ? "" : ",", s->port());
  const std::string both = fmt::format(
      "const M=require('{0}/redlock'),R=M.default||M,I=require('{0}/ioredis');const "
      "c=[{1}].map(p=>new I(p,'127.0.0.1'));const "
      "r=new R(c,{{retryCount:0}});"
      "(r.acquire||r.lock).call(r,[process.argv[2]],5000).then(()=>process.exit(0),()=>process."
      "exit(3))",
      modules, ports);
  const std::string file = m.servers[0]->directory() + "/lock.js";
  if (std::FILE* f = std::fopen(file.c_str(), "we")) {
    std::fputs(both.c_str(), f);
    std::fclose(f);
  }
  std::fflush(stdout);
  const Lease ours = acquire_or_fail(*five, request(key("ours")));
  const int while_ours = std::system(("node " + file + " ours").c_str()),
            theirs = std::system(("node " + file + " theirs").c_str());
  Request impatient = request(key("theirs"));
  impatient.wait = false;
  const auto p = (*five->enqueue(impatient))->poll(0s);
  const bool refused = p && std::holds_alternative<Busy>(*p);
  must(WEXITSTATUS(while_ours) == 3 && theirs == 0 && refused,
       "node-redlock and dlock exclude each other");
  release_or_fail(*five, ours);
}

}  // namespace

int main(int argc, char** argv) {
  if (const char* program = missing_redis()) return without(program);
  return run_parts(argc, argv, {{"faults", faults}, {"node", node}});
}
