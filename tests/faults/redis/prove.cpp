// SPDX-License-Identifier: Apache-2.0
// Figures of recipe `fair` on a real server, and the promises that are counts. redis_prove [--full
// [harness]]
//
// Counts are the server's own (INFO commandstats) and are asserted. Times are printed and compared
// with redis-benchmark running the same scripts on the same server in the same run.
#include "prove.hpp"
#include <string_view>

using namespace dlock;
using namespace dlock::prove;

int main(int argc, char** argv) {
  for (const char* program : {"redis-server", "redis-benchmark"})
    if (!installed(program)) return without(program);
  const bool full = argc > 1 && std::string_view{argv[1]} == "--full";
  const bool harness_only = argc > 2 && std::string_view{argv[2]} == "harness";
  try {
    RedisServer server{{.config = {"maxclients 4000"}}};
    if (harness_only) return harness(server, full), failed ? 1 : 0;
    uncontended(server, full ? 50'000 : 2'000);
    inside(server, full ? 20'000 : 1'000);
    against_set(server, full ? 2'000 : 100);
    harness(server, full);
    contended(server, 8, 8, true);
    contended(server, 500, 500, true);
    const Contended few = contended(server, 8, full ? 20'000 : 1'000, false),
                    many = contended(server, 500, full ? 20'000 : 2'000, false);
    must(few.per_grant <= 3.05 + few.alive && many.per_grant <= 3.05 + many.alive,
         "3 commands per grant (and those that show, now and then, that a waiter is alive)");
    must(many.per_grant - many.alive < few.per_grant * 1.1 &&
             few.per_grant - few.alive < many.per_grant * 1.1,
         "as many at 500 waiters as at 8, within 10 %");
    memory(server, full ? 20'000 : 2'000, full ? 5'000 : 500);
    dead_head(server);
    processes(server, full ? 300 : 10);
    fmt::print("PING round trip: p50 {:.0f} us\n", rtt_us(server, 2000));
  } catch (const std::exception& e) {
    fmt::print("FAILED: {}\n", e.what());
    return 1;
  }
  return failed ? 1 : 0;
}
