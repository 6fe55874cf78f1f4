// SPDX-License-Identifier: Apache-2.0
// The table of the test-only executable dlock_fake: the real command line on a backend with faults
// and no server.
#include <array>
#include "file/factory.hpp"
#include "store/factory.hpp"
#include "support/fake_backend.hpp"

namespace dlock {

std::span<const BackendFactory> backends() noexcept {
  static const std::array all{fake::factory, file::factory};
  return all;
}

std::span<const AbsentBackend> absent_backends() noexcept { return {}; }

}  // namespace dlock
