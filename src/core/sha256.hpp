// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace dlock {

std::string sha256_hex(std::string_view bytes);  // 64 lower-case digits (FIPS 180-4)

}  // namespace dlock
