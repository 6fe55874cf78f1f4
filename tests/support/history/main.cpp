// SPDX-License-Identifier: Apache-2.0
// Checks the history in `--trace` files:
//   history_check [--unordered] [--hand-over MS] [--takeover MS] FILE...
// Exit status: 0 nothing violated, 1 violated, 2 the files cannot be read.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>
#include "history/report.hpp"

using namespace dlock::history;

namespace {

int usage() {
  std::fputs("usage: history_check [--unordered] [--hand-over MS] [--takeover MS] FILE...\n",
             stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) try {
  Bounds bounds;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--unordered") bounds.in_order = false;
    else if ((word == "--hand-over" || word == "--takeover") && i + 1 < argc)
      (word == "--takeover" ? bounds.takeover : bounds.hand_over) =
          std::stoll(argv[++i]) * 1'000'000;
    else if (word.starts_with('-')) return usage();
    else files.push_back(word);
  }
  if (files.empty()) return usage();
  Reading reading;
  for (const std::string& file : files) {
    std::ifstream in(file, std::ios::binary);
    if (!in) {
      std::fprintf(stderr, "history_check: cannot read %s\n", file.c_str());
      return 2;
    }
    read(file, std::string(std::istreambuf_iterator<char>(in), {}), reading);
  }
  if (!reading.error.empty()) {
    std::fprintf(stderr, "history_check: %s\n", reading.error.c_str());
    return 2;
  }
  sort_by_time(reading);
  const Verdict verdict = check(gather(reading.events), bounds);
  std::puts(markdown(verdict).c_str());
  if (reading.torn)
    std::fprintf(stderr, "history_check: %zu files end in a torn line\n", reading.torn);
  return verdict.violations.empty() ? 0 : 1;
} catch (const std::invalid_argument&) {  // a bound that is no number
  return usage();
} catch (const std::exception& e) {
  std::fprintf(stderr, "history_check: %s\n", e.what());
  return 2;
}
