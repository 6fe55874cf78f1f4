// SPDX-License-Identifier: Apache-2.0
// Every backend of this binary, and those that it was built without. A new one is a line here.
#include <array>
#include "core/backend.hpp"
#include "file/file_backend.hpp"

namespace dlock {
namespace {

constexpr std::array built_in{file::factory};
constexpr std::array<AbsentBackend, 0> absent{};

}  // namespace

std::span<const BackendFactory> backends() noexcept { return built_in; }

std::span<const AbsentBackend> absent_backends() noexcept { return absent; }

}  // namespace dlock
