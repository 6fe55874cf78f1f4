// SPDX-License-Identifier: Apache-2.0
// For inspect --doctor: what a store reports about itself, and what that means for locks.
#pragma once
#include <iterator>
#include <string>
#include <string_view>
#include <vector>
#include "core/number.hpp"
#include "core/text.hpp"
#include "store/backend.hpp"

namespace dlock {

constexpr Finding::Level good_if(bool is, Finding::Level otherwise) noexcept {
  return is ? Finding::Level::good : otherwise;
}

// A check of one value that a server reports.
struct Check {
  std::string_view what;
  std::string_view query;  // in the store's language, such as an SQL expression
  Finding::Level (*judge)(std::string_view value);
  std::string_view advice;  // shown unless the value is good
};
template <int least>
Finding::Level at_least(std::string_view value) noexcept {
  return good_if(parse_number<std::int64_t>(value).value_or(0) >= least, Finding::Level::warning);
}
// Judges the value of a switch.
inline Finding::Level is_on(std::string_view value) noexcept {
  return good_if(value == "on", Finding::Level::warning);
}

class Findings {
 public:
  explicit Findings(std::string of = {}) : of_(std::move(of)) {}

  // Adds one check: the fact, its value and its level. It adds the advice, unless the value is
  // good.
  void add(std::string_view what, std::string value, Finding::Level level,
           std::string_view advice = {}) {
    const bool good = level == Finding::Level::good;
    all_.push_back({level, std::string(what) + of_, std::move(value),
                    good ? std::string() : std::string(advice)});
  }
  void add(const Check& check, std::string_view value) {
    add(check.what, printable(value), check.judge(value), check.advice);
  }
  void add(std::vector<Finding> more) {
    all_.insert(all_.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
  }
  std::vector<Finding> extract() { return std::move(all_); }

 private:
  const std::string of_;  // appended to the name of each fact, such as " of HOST"
  std::vector<Finding> all_;
};

}  // namespace dlock
