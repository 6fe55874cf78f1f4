// SPDX-License-Identifier: Apache-2.0
#include "arena.hpp"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace dlock::faults {
namespace {

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::_Exit(99);
}

}  // namespace

std::int64_t boot_ns() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_BOOTTIME, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

void Resource::init() {
  pthread_mutexattr_t shared;
  ::pthread_mutexattr_init(&shared);
  ::pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
  if (::pthread_mutex_init(&mutex_, &shared) != 0) fail("a mutex");
  ::pthread_mutexattr_destroy(&shared);
}

void Resource::write(std::uint64_t token, bool counts, std::int64_t read, Write& log) {
  if (::pthread_mutex_lock(&mutex_) == EOWNERDEAD) ::pthread_mutex_consistent(&mutex_);
  const bool accepted = token >= highest_;
  log.t = boot_ns();
  log.token = token;
  log.accepted = accepted;
  log.value = accepted && counts ? read + 1 : -1;
  if (accepted) {
    highest_ = token;
    if (counts) fenced_ = read + 1;
  }
  log.complete = true;
  ::pthread_mutex_unlock(&mutex_);
}

// One instruction changes both halves, so a job killed here has written both or none.
void Resource::write_unfenced(std::uint32_t value) noexcept {
  for (std::uint64_t was = unfenced_;
       !unfenced_.compare_exchange_weak(was, ((was >> 32U) + 1) << 32U | value);) {}
}

Arena& Arena::map(const std::string& path, bool create) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0600);
  if (fd < 0 || (create && ::ftruncate(fd, sizeof(Arena)) != 0)) fail(path.c_str());
  void* at = ::mmap(nullptr, sizeof(Arena), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (at == MAP_FAILED) fail(path.c_str());
  Arena& arena = *static_cast<Arena*>(at);
  if (create)
    for (Resource& r : arena.resources) r.init();
  return arena;
}

void Arena::unmap(Arena& arena) { ::munmap(&arena, sizeof(Arena)); }

Slot& Arena::take_slot() {
  const std::uint32_t i = slots_used++;
  if (i >= most_slots) fail("no slot is left");
  return slots[i];
}

Write& Arena::take_write() {
  const std::uint32_t i = writes_used++;
  if (i >= most_writes) fail("no write is left");
  return writes[i];
}

}  // namespace dlock::faults
