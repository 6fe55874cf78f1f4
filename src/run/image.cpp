// SPDX-License-Identifier: Apache-2.0
#include "run/image.hpp"
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdint>
#include "util/fd.hpp"

namespace dlock::run {

namespace {

std::span<std::byte> pages(const dl_phdr_info& object, const ElfW(Phdr) & segment) {
  const auto page = static_cast<std::uintptr_t>(::getpagesize());
  const auto at = object.dlpi_addr + segment.p_vaddr;
  const auto begin = at / page * page;
  const auto end = (at + segment.p_memsz + page - 1) / page * page;
  return {reinterpret_cast<std::byte*>(begin), end - begin};
}

// A last page in part is not among them: the loader leaves it writable, a write could get lost.
std::span<std::byte> constants(const dl_phdr_info& object, const ElfW(Phdr) & segment) {
  const auto all = pages(object, segment);
  const auto page = static_cast<std::uintptr_t>(::getpagesize());
  const bool part = (object.dlpi_addr + segment.p_vaddr + segment.p_memsz) % page != 0;
  return all.first(all.size() - (part ? page : 0));
}

// Whether nothing is lost with a page, by its bits in pagemap (proc_pid_pagemap(5)): it is not
// mapped, or it is the file's (61). One that was written, by the loader (constants; text with
// relocations) or by a debugger, is the process's own, in memory (63) or swapped out (62).
bool clean(std::uint64_t state) {
  constexpr std::uint64_t present = std::uint64_t{1} << 63, swapped = std::uint64_t{1} << 62,
                          of_file = std::uint64_t{1} << 61;
  return (state & (present | swapped)) == 0 || (state & (present | of_file)) == (present | of_file);
}

// Without pagemap it lets go of nothing.
void let_go_of_clean(std::span<std::byte> range, const Fd& pagemap) {
  const auto page = static_cast<std::size_t>(::getpagesize());
  std::array<std::uint64_t, 256> state;
  while (!range.empty()) {
    const std::size_t count = std::min(range.size() / page, state.size());
    const auto at = reinterpret_cast<std::uintptr_t>(range.data()) / page * sizeof state[0];
    const auto bytes = count * sizeof state[0];
    if (::pread(pagemap.get(), state.data(), bytes, static_cast<off_t>(at)) !=
        static_cast<ssize_t>(bytes))
      return;
    for (std::size_t i = 0, begin = 0; i <= count; ++i) {
      if (i < count && clean(state[i])) continue;
      if (i > begin) ::madvise(range.data() + begin * page, (i - begin) * page, MADV_DONTNEED);
      begin = i + 1;
    }
    range = range.subspan(count * page);
  }
}

}  // namespace

// The segments that are read only, on whole pages.
Image::Image() {
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* self) {
        auto& image = *static_cast<Image*>(self);
        const bool is_program = image.segments_.empty();  // it comes first
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = object->dlpi_phdr[i];
          if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) == 0)
            image.segments_.push_back(pages(*object, segment));
          if (segment.p_type == PT_GNU_RELRO && is_program)
            image.relro_ = constants(*object, segment);
        }
        return 0;
      },
      this);
}

void Image::let_go() const noexcept {
  const Fd pagemap{::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
  for (const auto& s : segments_) let_go_of_clean(s, pagemap);
  let_go_of_clean(relro_, pagemap);
}

void Image::keep() const noexcept {
  for (const auto& s : segments_) ::madvise(s.data(), s.size(), MADV_POPULATE_READ);
  for (const auto& s : segments_) ::mlock2(s.data(), s.size(), MLOCK_ONFAULT);
}

}  // namespace dlock::run
