// SPDX-License-Identifier: Apache-2.0
#include "run/image.hpp"
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cstdint>
#include <span>
#include <string>
#include "util/fd.hpp"

using namespace dlock;

namespace {

// The whole pages of this program's RELRO.
std::span<const char> relro() {
  std::span<const char> found;
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* result) {
        const auto page = static_cast<std::uintptr_t>(::getpagesize());
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = object->dlpi_phdr[i];
          if (segment.p_type != PT_GNU_RELRO) continue;
          const auto begin = (object->dlpi_addr + segment.p_vaddr + page - 1) / page * page;
          const auto end = (object->dlpi_addr + segment.p_vaddr + segment.p_memsz) / page * page;
          *static_cast<std::span<const char>*>(result) = {reinterpret_cast<const char*>(begin),
                                                          end - begin};
        }
        return 1;  // the program alone
      },
      &found);
  return found;
}

// Read by the kernel, which maps them: AddressSanitizer keeps its red zones between constants.
std::string contents(std::span<const char> at) {
  const Fd memory{::open("/proc/self/mem", O_RDONLY | O_CLOEXEC)};
  std::string read(at.size(), '\0');
  REQUIRE(::pread(memory.get(), read.data(), read.size(),
                  static_cast<off_t>(reinterpret_cast<std::uintptr_t>(at.data()))) ==
          static_cast<ssize_t>(read.size()));
  return read;
}

// A page of the program's constants, not among RELRO.
struct alignas(65536) Page {
  volatile char bytes[65536];
};
const Page constant{{'a'}};

struct Count {
  int clean = 0, written = 0;
};

Count mapped(std::span<const char> at) {
  const auto page = static_cast<std::uintptr_t>(::getpagesize());
  const Fd pagemap{::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
  Count n;
  for (std::size_t i = 0; i < at.size() / page; ++i) {
    std::uint64_t state = 0;
    const auto number = reinterpret_cast<std::uintptr_t>(at.data()) / page + i;
    REQUIRE(::pread(pagemap.get(), &state, sizeof state,
                    static_cast<off_t>(number * sizeof state)) == sizeof state);
    if ((state >> 63 & 1) == 0) continue;
    ++((state >> 61 & 1) != 0 ? n.clean : n.written);
  }
  return n;
}

}  // namespace

TEST_CASE("an image lets go of constants that are the file's, and of none that the loader wrote") {
  const auto constants = relro();
  REQUIRE(constants.size() > 0);
  const std::string before = contents(constants);
  const Count were = mapped(constants);
  const run::Image image;
  image.let_go();
  const Count are = mapped(constants);
  CHECK(are.written == were.written);
  if (were.clean > 20) CHECK(are.clean < were.clean);  // none at all, where addresses are random
  CHECK(contents(constants) == before);
}

TEST_CASE("an image keeps a read-only page that was written, as a loader or a debugger does") {
  const auto page = static_cast<std::size_t>(::getpagesize());
  void* const at = const_cast<char*>(constant.bytes);
  REQUIRE(constant.bytes[0] == 'a');
  const run::Image image;
  REQUIRE(::mprotect(at, page, PROT_READ | PROT_WRITE) == 0);
  *static_cast<volatile char*>(at) = 'b';
  REQUIRE(::mprotect(at, page, PROT_READ) == 0);
  image.let_go();
  CHECK(constant.bytes[0] == 'b');
}
