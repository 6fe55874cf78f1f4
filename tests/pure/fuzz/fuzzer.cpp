// SPDX-License-Identifier: Apache-2.0
// libFuzzer's side: the environment variable FUZZ_TARGET names the target.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include "targets.hpp"

namespace {

dlock::fuzz::Read chosen() {
  const char* name = std::getenv("FUZZ_TARGET");
  for (const auto& target : dlock::fuzz::targets())
    if (name && target.name == name) return target.read;
  std::fputs("fuzz: FUZZ_TARGET is none of", stderr);
  for (const auto& target : dlock::fuzz::targets()) fmt::print(stderr, " {}", target.name);
  std::fputs("\n", stderr);
  std::exit(64);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const dlock::fuzz::Read read = chosen();
  read({reinterpret_cast<const char*>(data), size});
  return 0;
}
