// SPDX-License-Identifier: Apache-2.0
// What remains in the store of a waiter that ended while the store was silent.
#include <algorithm>
#include "one_run.hpp"

namespace dlock::test {
namespace {

constexpr double ttl = 6;  // shorter than usual, because the test waits for it
const std::vector<std::string> short_ttl{"--ttl", "6"};

std::vector<std::string> with(std::vector<std::string> more) {
  more.insert(more.begin(), short_ttl.begin(), short_ttl.end());
  return more;
}

// 1. It is queued, with another waiter behind it. Its place ends by its patience, which is at most
// a ttl.
double place(const Place& at) {
  Run holder(at.url, short_ttl, job);
  holder.event("acquired");
  Run gone(at.url, with({"-w", "6"}), {"true"});
  gone.event("waiting");
  Run next(at.url, short_ttl, {"true"});
  next.event("waiting");
  at.store.freeze();
  // A file store can be read even in the middle of another's change.
  check(gone.end() == (at.name == "file" ? "exit 75" : "exit 69"),
        at.name + ": the wait of the one that cannot leave");
  at.store.thaw();
  holder.signal(SIGTERM);
  (void)holder.end();
  const double free = std::max(holder.ended, boot_now());
  const double waited = next.event("acquired") - free;
  check(
      waited < ttl + load,
      fmt::format("{}: the next waited {:.1f} s for the place of a dead waiter", at.name, waited));
  (void)next.end();
  return waited;
}

// 2. Its last request arrives when it is gone, and finds the key free: the holder was killed, and
// its lease ended during the silence.
double grant(const Place& at) {
  Run holder(at.url, short_ttl, job);
  holder.event("acquired");
  Run gone(at.url, with({"-w", "9"}), {"true"});
  gone.event("waiting");
  at.store.freeze();
  holder.signal(SIGKILL);
  (void)holder.end();
  check(gone.end() != "exit 0" || at.name == "file", at.name + ": a silent store grants nothing");
  at.store.thaw();
  const double free = boot_now();
  Run next(at.url, short_ttl, {"true"});
  const double waited = next.event("acquired") - free;
  check(waited < ttl + load,
        fmt::format("{}: a grant to a dead waiter lasted {:.1f} s", at.name, waited));
  (void)next.end();
  return waited;
}

}  // namespace

void abandoned(const Place& at) {
  const double by_place = place(at), by_grant = grant(at);
  fmt::print(
      "{:10}  the next waiter was delayed {:4.0f} ms by an abandoned place, {:4.0f} ms by a grant "
      "to it\n",
      at.name, by_place * 1000, by_grant * 1000);
}

}  // namespace dlock::test
