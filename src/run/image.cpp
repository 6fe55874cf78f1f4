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

// Some of these constants were written by the loader and are nowhere else; those that are still
// the file's have bits 63 (present) and 61 (a file's) in pagemap, proc_pid_pagemap(5).
void let_go_of_clean(std::span<std::byte> relro) {
  constexpr std::uint64_t clean = std::uint64_t{1} << 63 | std::uint64_t{1} << 61;
  const auto page = static_cast<std::size_t>(::getpagesize());
  const Fd pagemap{::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
  std::array<std::uint64_t, 64> state;
  while (!relro.empty()) {
    const std::size_t count = std::min(relro.size() / page, state.size());
    const auto at = reinterpret_cast<std::uintptr_t>(relro.data()) / page * sizeof state[0];
    const auto bytes = count * sizeof state[0];
    if (::pread(pagemap.get(), state.data(), bytes, static_cast<off_t>(at)) !=
        static_cast<ssize_t>(bytes))
      return;
    for (std::size_t i = 0; i < count; ++i)
      if ((state[i] & clean) == clean) ::madvise(relro.data() + i * page, page, MADV_DONTNEED);
    relro = relro.subspan(count * page);
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
  for (const auto& s : segments_) ::madvise(s.data(), s.size(), MADV_DONTNEED);
  let_go_of_clean(relro_);
}

void Image::keep() const noexcept {
  for (const auto& s : segments_) ::madvise(s.data(), s.size(), MADV_POPULATE_READ);
  for (const auto& s : segments_) ::mlock2(s.data(), s.size(), MLOCK_ONFAULT);
}

}  // namespace dlock::run
