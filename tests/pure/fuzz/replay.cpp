// SPDX-License-Identifier: Apache-2.0
// Each file of CORPUS/<target>/, whole and cut short after each of its first bytes, through its
// target. Every target has such a folder, and every folder a target.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include "targets.hpp"

namespace fs = std::filesystem;
using namespace dlock::fuzz;

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: fuzz_replay CORPUS\n", stderr), 64;
  std::set<std::string> known;
  for (const Target& target : targets()) {
    known.emplace(target.name);
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(fs::path(argv[1]) / target.name)) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(in), {}};
      for (std::size_t n = 0; n < bytes.size() && n < 2000; ++n)
        target.read(std::string_view{bytes}.substr(0, n));
      target.read(bytes);
      ++files;
    }
    must(files > 0, fmt::format("no corpus for {}", target.name));
    fmt::print("{}: {} files\n", target.name, files);
  }
  for (const auto& entry : fs::directory_iterator(argv[1])) {
    // a build without a backend lacks its targets
    if (!known.contains(entry.path().filename()))
      fmt::print("not built: {}\n", entry.path().filename().string());
  }
  return 0;
}
