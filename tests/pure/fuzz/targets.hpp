// SPDX-License-Identifier: Apache-2.0
// What dlock reads from others, each as a function of bytes: libFuzzer (fuzzer.cpp, scripts/fuzz)
// looks for bytes that break it, and the suite (replay.cpp) repeats those of corpus/.
#pragma once
#include <fmt/format.h>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace dlock::fuzz {

// Aborts, or lets a sanitizer abort, when the bytes are read wrongly. Bytes that are refused are
// fine.
using Read = void (*)(std::string_view bytes);

struct Target {
  std::string_view name;
  Read read;
};

// Every target of this build, added by the file that defines it.
std::vector<Target>& targets();

struct Added {
  Added(std::string_view name, Read read) { targets().push_back({name, read}); }
};

inline void must(bool good, std::string_view what) {
  if (good) return;
  fmt::print(stderr, "fuzz: broken: {}\n", what);
  std::abort();
}

}  // namespace dlock::fuzz
