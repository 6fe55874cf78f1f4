// SPDX-License-Identifier: Apache-2.0
// Promises of the ZooKeeper recipes on real servers that are counts or times.
// zookeeper_prove [--full] [PART...]
//
// Parts: queue, killed, cut. `cut` needs root (network namespaces) and is skipped otherwise.
#include "prove.hpp"
#include <algorithm>
#include <string_view>

using namespace dlock;
using namespace dlock::test;
using namespace dlock::prove;

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view{argv[1]} == "--job") job(argv[2]);
  if (!zookeeper_installed()) return without_zookeeper();
  std::vector<std::string_view> parts;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view{argv[i]} == "--full") full = true;
    else parts.emplace_back(argv[i]);
  }
  const auto wanted = [&](std::string_view part) {
    return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  try {
    if (wanted("queue")) queue();
    if (wanted("killed")) killed();
    if (wanted("cut")) cut(argv[0]);
  } catch (const std::exception& e) {
    fmt::print("FAILED: {}\n", e.what());
    return 1;
  }
  return failed ? 1 : 0;
}
