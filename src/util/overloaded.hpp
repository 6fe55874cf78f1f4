// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dlock {

// Makes one visitor for std::visit out of a lambda for each alternative.
template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace dlock
