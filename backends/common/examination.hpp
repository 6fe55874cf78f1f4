// SPDX-License-Identifier: Apache-2.0
// Used by inspect --doctor: what a store reports of itself, and what that means for locks.
#pragma once
#include <iterator>
#include <string>
#include <string_view>
#include <vector>
#include "store/backend.hpp"

namespace dlock {

constexpr Finding::Level good_if(bool is, Finding::Level otherwise) noexcept {
  return is ? Finding::Level::good : otherwise;
}

class Findings {
 public:
  explicit Findings(std::string of = {}) : of_(std::move(of)) {}

  // Adds one check: the fact, its value and the judgement; and the advice, unless the value is
  // good.
  void add(std::string_view what, std::string value, Finding::Level level,
           std::string_view advice = {}) {
    const bool good = level == Finding::Level::good;
    all_.push_back({level, std::string(what) + of_, std::move(value),
                    good ? std::string() : std::string(advice)});
  }
  void add(std::vector<Finding> more) {
    all_.insert(all_.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
  }
  std::vector<Finding> extract() { return std::move(all_); }

 private:
  const std::string of_;  // appended to each name: " of HOST"
  std::vector<Finding> all_;
};

}  // namespace dlock
