// SPDX-License-Identifier: Apache-2.0
#include "run/image.hpp"
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdint>

namespace dlock::run {
namespace {

// Calls f(begin, length) for each segment that is read only, on whole pages.
template <class F>
void each_clean_segment(F f) noexcept {
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* call) {
        const auto page = static_cast<std::uintptr_t>(::getpagesize());
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = object->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
          const auto at = object->dlpi_addr + segment.p_vaddr;
          const auto begin = at / page * page;
          const auto end = (at + segment.p_memsz + page - 1) / page * page;
          (*static_cast<F*>(call))(reinterpret_cast<void*>(begin), end - begin);
        }
        return 0;
      },
      &f);
}

}  // namespace

void let_go_of_image() noexcept {
  each_clean_segment([](void* at, std::size_t size) { ::madvise(at, size, MADV_DONTNEED); });
}

void keep_image() noexcept {
  each_clean_segment([](void* at, std::size_t size) { ::mlock2(at, size, MLOCK_ONFAULT); });
}

}  // namespace dlock::run
