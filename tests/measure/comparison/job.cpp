// SPDX-License-Identifier: Apache-2.0
// What the tools of the comparison run under their lock: adds one to a counter, by reading it,
// holding for a while and then writing it, and records meanwhile that it lives.
//
//   comparison_job RECORDS COUNTER LONG_MS
//
// It holds 100 to 500 ms, every third time LONG_MS. RECORDS gets lines of one write(2) each; NS is
// CLOCK_BOOTTIME in nanoseconds, CLIENT comes from $COMPARISON_CLIENT:
//   start PID NS CLIENT HOLD_MS     before the counter is read
//   alive PID NS                    every 5 ms
//   wrote PID NS VALUE              the counter has this value now; the last act
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

constexpr std::int64_t ms = 1'000'000, beat = 5 * ms;

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(1);
}

std::int64_t now() {
  timespec t{};
  ::clock_gettime(CLOCK_BOOTTIME, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

void sleep_until(std::int64_t at) {
  const timespec t{.tv_sec = at / 1'000'000'000, .tv_nsec = at % 1'000'000'000};
  ::clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &t, nullptr);
}

class Records {
 public:
  explicit Records(const char* path) : fd_(::open(path, O_WRONLY | O_APPEND | O_CLOEXEC)) {
    if (fd_ < 0) give_up(path);
  }
  void add(const char* what, std::int64_t at, const char* rest) const {
    char line[256];
    const int n = std::snprintf(line, sizeof line, "%s %d %lld%s\n", what, int(::getpid()),
                                static_cast<long long>(at), rest);
    if (n < 0 || ::write(fd_, line, std::size_t(n)) != n) give_up("records");
  }

 private:
  int fd_;
};

}  // namespace

int main(int argc, char** argv) {
  const char* client = std::getenv("COMPARISON_CLIENT");
  if (argc != 4 || !client || std::strlen(client) > 64) {
    std::fputs("usage: COMPARISON_CLIENT=C comparison_job RECORDS COUNTER LONG_MS\n", stderr);
    return 64;
  }
  std::uint32_t random[2];
  if (::getrandom(random, sizeof random, 0) != sizeof random) give_up("getrandom");
  const long hold = random[0] % 3 == 0 ? std::atol(argv[3]) : 100 + random[1] % 401;

  const Records records(argv[1]);
  const int counter = ::open(argv[2], O_RDWR | O_CLOEXEC);
  if (counter < 0) give_up(argv[2]);
  char rest[128];
  std::snprintf(rest, sizeof rest, " %s %ld", client, hold);
  const std::int64_t began = now(), end = began + hold * ms;
  records.add("start", began, rest);

  std::int64_t value = 0;
  if (::pread(counter, &value, sizeof value, 0) < 0) give_up("counter");
  for (std::int64_t at = now(); at < end; at = now()) {
    records.add("alive", at, "");
    sleep_until(std::min(at + beat, end));
  }
  ++value;
  if (::pwrite(counter, &value, sizeof value, 0) != sizeof value) give_up("counter");
  std::snprintf(rest, sizeof rest, " %lld", static_cast<long long>(value));
  records.add("wrote", now(), rest);
}
