// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>
#include "support/catch/run.hpp"

namespace dlock::test {

// A generator that is determined by the seed.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t any() { return engine_(); }
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  std::string bytes(std::size_t longest) {
    std::string out(below(longest + 1), '\0');
    for (char& c : out) c = static_cast<char>(below(256));
    return out;
  }
  // `text` with some bytes replaced, removed, doubled or inserted; mostly bytes with a meaning for
  // parsers.
  std::string damaged(std::string text) {
    static constexpr std::string_view meaning = ":/@?&=%.,[]#-+0123456789aAzXSPv1 \x01\x7f\xc2\xff";
    for (std::uint64_t n = 1 + below(4); n > 0; --n) {
      const std::size_t at = below(text.size() + 1);
      const char c = one_in(4) ? static_cast<char>(below(256)) : meaning[below(meaning.size())];
      switch (below(4)) {
        case 0: text.insert(at, 1, c); break;
        case 1: text.erase(at, 1 + below(3)); break;
        case 2: text.insert(at, text.substr(at, below(5))); break;
        default:
          if (at < text.size()) text[at] = c;
      }
    }
    return text;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace dlock::test
