// SPDX-License-Identifier: Apache-2.0
// Uncontended: the cost of a lock compared with a plain create and delete.
#include <dlfcn.h>
#include <sys/wait.h>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include "prove.hpp"

using namespace dlock;
using namespace dlock::test;

namespace dlock::prove {
namespace {

// The C client's own synchronous calls, from its multi-threaded library, if installed.
double plain_loop(const std::string& host, Duration span) {
  void* lib = ::dlopen("libzookeeper_mt.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!lib) return 0;
  const auto init = reinterpret_cast<void* (*)(const char*, void*, int, const void*, void*, int)>(
      ::dlsym(lib, "zookeeper_init"));
  const auto close = reinterpret_cast<int (*)(void*)>(::dlsym(lib, "zookeeper_close"));
  const auto state = reinterpret_cast<int (*)(void*)>(::dlsym(lib, "zoo_state"));
  const auto debug = reinterpret_cast<void (*)(int)>(::dlsym(lib, "zoo_set_debug_level"));
  const auto create =
      reinterpret_cast<int (*)(void*, const char*, const char*, int, const void*, int, char*, int)>(
          ::dlsym(lib, "zoo_create"));
  const auto remove =
      reinterpret_cast<int (*)(void*, const char*, int)>(::dlsym(lib, "zoo_delete"));
  const void* acl = ::dlsym(lib, "ZOO_OPEN_ACL_UNSAFE");
  if (!init || !close || !state || !debug || !create || !remove || !acl) return 0;
  debug(0);
  void* zh = init(host.c_str(), nullptr, 10000, nullptr, nullptr, 0);
  constexpr int connected = 3, ephemeral = 1;
  for (const Deadline end = Clock::now() + 10s; state(zh) != connected && Clock::now() < end;)
    ::usleep(1000);
  const double rate = per_second(span, [&] {
    if (create(zh, "/plain", "", 0, acl, ephemeral, nullptr, 0) != 0 ||
        remove(zh, "/plain", -1) != 0)
      throw std::runtime_error("the plain loop fails");
  });
  close(zh);
  return rate;
}

double same_library_loop(const std::string& url, Duration span) {
  RawZookeeper raw{url};
  return per_second(span, [&] {
    raw.make("/plain2");
    raw.remove("/plain2");
  });
}

}  // namespace

void rate() {
  ZookeeperServer server{{.tick = 2000ms}};
  auto backend = open_zookeeper(server.url() + "/rate");
  const Key k = key("uncontended");
  release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
  const Duration span = full ? Duration{3s} : Duration{500ms};
  const auto ours = [&] {
    return per_second(span,
                      [&] { release_or_fail(*backend, acquire_or_fail(*backend, request(k))); });
  };
  const std::uint64_t before = backend->counters().requests;
  release_or_fail(*backend, acquire_or_fail(*backend, request(k)));
  fmt::print("uncontended: {} requests per acquire and release\n",
             backend->counters().requests - before);
  must(backend->counters().requests - before == 4,
       "uncontended: create, list, the watch for a forced release, delete, and nothing else");
  std::vector<double> ratios;
  double plain = 0, same = 0, own = 0;
  // interleaved, as other programs run here, too
  for (int round = 0; round < (full ? 5 : 3); ++round) {
    const double p = plain_loop(server.host(), span), s = same_library_loop(server.url(), span),
                 o = ours();
    if (p > 0) ratios.push_back(o / p);
    plain = std::max(plain, p);
    same = std::max(same, s);
    own = std::max(own, o);
  }
  fmt::print(
      "acquire and release on one session, best of the rounds: {:.0f}/s; create and delete by the "
      "C client's synchronous calls: "
      "{:.0f}/s; "
      "by the library used here: {:.0f}/s; median ratio to the first {:.2f}, of the bests {:.2f}\n",
      own, plain, same, quantile(ratios, 0.5), plain > 0 ? own / plain : 0);
  if (const char* script = std::getenv("KAZOO_RATE")) {
    const std::string command =
        fmt::format("/usr/bin/python3 {} {} {}", script, server.host(), full ? 3 : 1);
    std::fflush(stdout);
    if (std::system(command.c_str()) != 0) fmt::print("kazoo: not measured\n");
  }
}

}  // namespace dlock::prove
