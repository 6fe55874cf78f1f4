// SPDX-License-Identifier: Apache-2.0
// The pages of the manual that `dlock help PAGE` prints, for systems without man: as text, made by
// the build out of man/dlock-PAGE.7 (man/help_pages.cmake).
#pragma once
#include <span>
#include <string_view>

namespace dlock::cli {

struct ManualPage {
  std::string_view name;  // "redis", of dlock-redis(7)
  std::string_view text;
};

std::span<const ManualPage> manual_pages() noexcept;

}  // namespace dlock::cli
