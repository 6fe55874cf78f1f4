// SPDX-License-Identifier: Apache-2.0
// The recipes under test, each on servers of its own, and what can be done to those.
#pragma once
#include <memory>
#include <string_view>
#include <vector>
#include "fault.hpp"
#include "support/stores.hpp"

namespace dlock::faults {

struct Recipe {
  std::string_view name;    // of the row, and for --target
  std::string_view store;   // of tests/support/stores.hpp
  std::string_view recipe;  // --recipe
  int ttl;                  // seconds
  bool ordered;             // I11
  bool attached;            // to its processes, without a deadline
  bool connection;          // ends with a connection
  std::size_t share;        // of the grants without faults, in thousandths
  bool as_installed_only = false;
};

const std::vector<Recipe>& recipes();
// Prepared for the fault; as_installed: as distributions configure it, with a URL without items.
std::unique_ptr<test::Store> make_target(const Recipe&, Fault, bool as_installed = false);

bool applies(const Recipe&, Fault);
// Why exclusion is not promised there (dlock-backends(7)); empty: it is.
std::string_view not_covered(const Recipe&, Fault);
std::string_view not_covered(const Recipe&, const Faults&);

}  // namespace dlock::faults
