// SPDX-License-Identifier: Apache-2.0
// Figures of Redlock on five real masters, and the promises that are counts. redlock_prove [--full]
//
// With NODE_MODULES in the environment, the directory of `npm install redlock ioredis`,
// node-redlock runs the same loop on the same masters.
#include "support/prove.hpp"
#include <fmt/format.h>
#include <cstdio>
#include <cstdlib>
#include "contended.hpp"

using namespace dlock;
using namespace dlock::prove;
using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

double us(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

struct Loop {
  double acquire_p50, acquire_p99, release_p50, per_second;
};

Loop loop(Backend& backend, int n) {
  const Key k = *Key::parse("latency");
  release_or_fail(backend, acquire_or_fail(backend, request(k)));
  std::vector<double> acquire, release;
  const auto began = Clock::now();
  for (int i = 0; i < n; ++i) {
    const auto a = Clock::now();
    const Lease l = acquire_or_fail(backend, request(k));
    const auto b = Clock::now();
    release_or_fail(backend, l);
    acquire.push_back(us(b - a));
    release.push_back(us(Clock::now() - b));
  }
  return {quantile(acquire, 0.5), quantile(acquire, 0.99), quantile(release, 0.5),
          n / (us(Clock::now() - began) / 1e6)};
}

void latency(bool full) {
  RedlockMasters m;
  auto five = open_redlock(m.url());
  auto one = open_redis(m.servers[0]->url() + "?restart_grace=0"),
       set = open_redis(m.servers[0]->url() + "?restart_grace=0", {}, "set");
  const int n = full ? 5000 : 500;
  Loop best5{1e9, 0, 0, 0}, best1 = best5, best_set = best5;
  for (int round = 0; round < 3; ++round) {  // the best of three each, interleaved
    const auto better = [](Loop& best, const Loop& l) {
      if (l.acquire_p50 < best.acquire_p50) best = l;
    };
    better(best5, loop(*five, n));
    better(best1, loop(*one, n));
    better(best_set, loop(*set, n));
  }
  fmt::print(
      "uncontended acquire p50: redlock over 5 masters {:.0f} us (p99 {:.0f}), one Redis fair "
      "{:.0f} us, set {:.0f} us; ratio "
      "{:.2f} and {:.2f}\n",
      best5.acquire_p50, best5.acquire_p99, best1.acquire_p50, best_set.acquire_p50,
      best5.acquire_p50 / best1.acquire_p50, best5.acquire_p50 / best_set.acquire_p50);
  fmt::print(
      "acquire and release, one client: redlock {:.0f}/s, one Redis fair {:.0f}/s, set {:.0f}/s\n",
      best5.per_second, best1.per_second, best_set.per_second);
  // The same with network delay: then the number of round trips counts, not that all servers share
  // one machine.
  RedlockMasters far{{.proxied = true}};
  for (auto& p : far.proxies) p->delay(Proxy::to_server, 2ms), p->delay(Proxy::to_client, 2ms);
  auto far_five = open_redlock(far.proxied_url());
  auto far_one =
      open_redis(fmt::format("redis://127.0.0.1:{}?restart_grace=0", far.proxies[0]->port()));
  const Loop f5 = loop(*far_five, full ? 200 : 30), f1 = loop(*far_one, full ? 200 : 30);
  fmt::print(
      "the same over a network with a round trip of 4 ms: redlock {:.0f} us, one Redis {:.0f} us; "
      "ratio {:.2f}\n",
      f5.acquire_p50, f1.acquire_p50, f5.acquire_p50 / f1.acquire_p50);
  if (full)  // a short run on a busy machine says nothing about times
    must(f5.acquire_p50 <= 2.5 * f1.acquire_p50,
         "an acquisition takes at most 2.5 times that of one Redis, over a network");
  // the first grant of a key also writes the list
  release_or_fail(*five, acquire_or_fail(*five, request(*Key::parse("count"))));
  const auto before = five->counters().requests;
  release_or_fail(*five, acquire_or_fail(*five, request(*Key::parse("count"))));
  const auto commands = five->counters().requests - before;
  fmt::print("commands per acquire and release: {} at 5 masters\n", commands);
  must(commands == 15, "two commands to acquire and one to release, at each master");

  const char* modules = std::getenv("NODE_MODULES");
  if (!modules || !installed("node")) {
    fmt::print("node-redlock: not tested (NODE_MODULES is not set, or node is not installed)\n");
    return;
  }
  std::string ports;
  for (const auto& s : m.servers) ports += fmt::format("{}{}", ports.empty() ? "" : ",", s->port());
  const std::string script = fmt::format(
      "const M=require('{0}/redlock'),R=M.default||M,I=require('{0}/ioredis');const "
      "c=[{1}].map(p=>new I(p,'127.0.0.1'));const "
      "r=new R(c,{{retryCount:0}});"
      "(async()=>{{let best=0,p50=1e9;for(let k=0;k<3;k++){{const t=[];const "
      "b=process.hrtime.bigint();for(let "
      "i=0;i<{2};i++){{const a=process.hrtime.bigint();"
      "const l=await "
      "(r.acquire||r.lock).call(r,['latency'],10000);t.push(Number(process.hrtime.bigint()-a)/"
      "1e3);await "
      "(l.release||l.unlock).call(l);}}"
      "best=Math.max(best,{2}/(Number(process.hrtime.bigint()-b)/"
      "1e9));t.sort((x,y)=>x-y);p50=Math.min(p50,t[t.length>>1]);}}"
      "console.log('node-redlock: acquire p50 '+p50.toFixed(0)+' us, acquire and release "
      "'+best.toFixed(0)+'/s');process.exit(0)}})()"
      ".catch(e=>{{console.log('node-redlock: '+e);process.exit(1)}})",
      modules, ports, n);
  const std::string file = m.servers[0]->directory() + "/loop.js";
  if (std::FILE* f = std::fopen(file.c_str(), "we")) {
    std::fputs(script.c_str(), f);
    std::fclose(f);
  }
  std::fflush(stdout);
  must(std::system(("node " + file).c_str()) == 0, "node-redlock runs");
  // It excludes with dlock: while it holds, dlock gets no grant, and the other way round.
  const std::string both = fmt::format(
      "const M=require('{0}/redlock'),R=M.default||M,I=require('{0}/ioredis');const "
      "c=[{1}].map(p=>new I(p,'127.0.0.1'));const "
      "r=new R(c,{{retryCount:0}});"
      "(r.acquire||r.lock).call(r,[process.argv[2]],5000).then(()=>process.exit(0),()=>process."
      "exit(3))",
      modules, ports);
  if (std::FILE* f = std::fopen(file.c_str(), "we")) {
    std::fputs(both.c_str(), f);
    std::fclose(f);
  }
  const Lease ours = acquire_or_fail(*five, request(*Key::parse("ours")));
  const int while_ours = std::system(("node " + file + " ours").c_str()),
            theirs = std::system(("node " + file + " theirs").c_str());
  Request impatient = request(*Key::parse("theirs"));
  impatient.wait = false;
  const auto p = (*five->enqueue(impatient))->poll(0s);
  const bool refused = p && std::holds_alternative<Busy>(*p);
  must(WEXITSTATUS(while_ours) == 3 && theirs == 0 && refused,
       "node-redlock and dlock exclude each other");
  fmt::print("node-redlock and dlock exclude each other: {}\n",
             WEXITSTATUS(while_ours) == 3 && theirs == 0 && refused ? "both ways" : "NO");
  release_or_fail(*five, ours);
}

}  // namespace

int main(int argc, char** argv) {
  if (!installed("redis-server")) return without("redis-server");
  const bool full = argc > 1 && std::string_view{argv[1]} == "--full";
  try {
    latency(full);
    const long grants = full ? 10'000 : 300;
    const auto began = Clock::now();
    const Contention c = contend(grants, full ? Duration{20min} : Duration{60s}, 7);
    fmt::print(
        "contended, 6 clients, random faults of masters: {} grants in {:.0f} s, {} faults, {} "
        "errors, {} leases lost: {} "
        "overlaps, {} token inversions, {} duplicates\n",
        c.windows.size(), us(Clock::now() - began) / 1e6, c.faults, c.errors, c.lost, c.overlaps,
        c.inversions, c.duplicates);
    must(static_cast<long>(c.windows.size()) >= grants / 2, "grants");
    must(c.overlaps == 0 && c.inversions == 0 && c.duplicates == 0, "no overlap, rising tokens");
  } catch (const std::exception& e) {
    fmt::print("FAILED: {}\n", e.what());
    return 1;
  }
  return failed ? 1 : 0;
}
