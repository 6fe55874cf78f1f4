// SPDX-License-Identifier: Apache-2.0
// The job of fault_runner: guarded_job ARENA KEY MILLISECONDS EVERY exclusive|shared stays|goes. It
// reads both counters, writes to the resource with its fencing token every 20 ms, notes every EVERY
// µs that it is alive, and writes both counters when the time is over, and, if it stays, not before
// Resource::hold is false; a shared job writes nothing. Under every second key it ignores SIGTERM,
// so that its end is dlock's SIGKILL.
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include "arena.hpp"

using namespace dlock::faults;

namespace {

constexpr std::int64_t millisecond = 1'000'000, asleep_from = 100 * millisecond,
                       write_every = 20 * millisecond, longest = 300'000 * millisecond;

void note_life(Slot& slot, std::int64_t now) {
  const std::int64_t last = slot.last;
  if (now - last > asleep_from && now - last > slot.awake - slot.asleep) {
    slot.asleep = last;
    slot.awake = now;
  }
  slot.last = now;
}

void rest(std::int64_t ns) {
  const timespec t{0, ns};
  ::nanosleep(&t, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const char* token_text = std::getenv("DLOCK_TOKEN");
  if (argc != 7 || !token_text) return 99;
  Arena& arena = Arena::map(argv[1], false);
  const int key = std::atoi(argv[2]);
  const std::int64_t work = std::atoll(argv[3]) * millisecond;
  const std::int64_t every = std::atoll(argv[4]) * 1000;
  const bool stays = argv[6] == std::string_view{"stays"};
  const std::uint64_t token = std::strtoull(token_text, nullptr, 10);
  Resource& resource = arena.resources[key];

  Slot& slot = arena.take_slot();
  if (key % 2 == 0) ::signal(SIGTERM, SIG_IGN);
  slot.key = key;
  slot.shared = argv[5] == std::string_view{"shared"};
  slot.pid = ::getpid();
  slot.guard = ::getppid();
  const std::int64_t start = boot_ns();
  slot.start = start;
  slot.last = start;
  slot.token = token;  // from now on it is read

  const auto write = [&](bool counts, std::int64_t read) {
    if (slot.shared) return;
    Write& log = arena.take_write();
    log.key = key;
    resource.write(token, counts, read, log);
  };
  // The first write shuts out all older tokens, so what is read after it stays true.
  write(false, 0);
  const std::int64_t fenced = resource.fenced();
  const std::uint32_t unfenced = resource.unfenced();

  std::int64_t wrote = start;
  for (std::int64_t now = start; now < start + longest; now = boot_ns()) {
    note_life(slot, now);
    if (now - wrote >= write_every) {
      write(false, 0);
      wrote = now;
    }
    if (now >= start + work) {
      if (!stays || !resource.hold) break;
      slot.holds = true;
    }
    rest(every);
  }
  slot.holds = false;
  write(true, fenced);
  if (!slot.shared) resource.write_unfenced(unfenced + 1);
  note_life(slot, boot_ns());
  // Without the search for leaks of a sanitizer build, which a SIGSTOP at that moment stops for
  // good.
  ::_exit(0);
}
