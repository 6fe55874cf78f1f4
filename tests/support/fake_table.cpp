// SPDX-License-Identifier: Apache-2.0
// The table of the test-only executable dlock_fake: the real command line on a backend with faults and no server.
#include <array>
#include "file/file_backend.hpp"
#include "file/purge.hpp"
#include "support/fake_backend.hpp"

namespace dlock {

std::span<const BackendFactory> backends() noexcept {
  static const std::array all{fake::factory, file::factory};
  return all;
}

std::span<const AbsentBackend> absent_backends() noexcept { return {}; }

std::span<const Purger> purgers() noexcept {
  static constexpr Purger all[] = {
      {"file", file::purge},
      {"fake", [](const Url&, const Traits&, const Settings&, std::span<const Key>) { return Result<void>{}; }}};
  return all;  // what the fake keeps is gone with the process
}

}  // namespace dlock
