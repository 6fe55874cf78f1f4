// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string_view>

namespace dlock::cli {

// The one of `names` that `wrong` was probably meant to be: at most two typing errors away, or the
// only one that it begins. Empty: none.
std::string_view nearest(std::string_view wrong, std::span<const std::string_view> names);

}  // namespace dlock::cli
