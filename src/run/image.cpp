// SPDX-License-Identifier: Apache-2.0
#include "run/image.hpp"
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdint>

namespace dlock::run {

// The segments that are read only, on whole pages.
Image::Image() {
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* found) {
        const auto page = static_cast<std::uintptr_t>(::getpagesize());
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = object->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
          const auto at = object->dlpi_addr + segment.p_vaddr;
          const auto begin = at / page * page;
          const auto end = (at + segment.p_memsz + page - 1) / page * page;
          static_cast<decltype(segments_)*>(found)->emplace_back(
              reinterpret_cast<std::byte*>(begin), end - begin);
        }
        return 0;
      },
      &segments_);
}

void Image::let_go() const noexcept {
  for (const auto& s : segments_) ::madvise(s.data(), s.size(), MADV_DONTNEED);
}

void Image::keep() const noexcept {
  for (const auto& s : segments_) ::madvise(s.data(), s.size(), MADV_POPULATE_READ);
  for (const auto& s : segments_) ::mlock2(s.data(), s.size(), MLOCK_ONFAULT);
}

}  // namespace dlock::run
