// SPDX-License-Identifier: Apache-2.0
// Grants without faults, many of them: processes that use the Backend interface, as dlock run does,
// and trace what they do with its lines.
#pragma once
#include <cstddef>
#include "cell.hpp"

namespace dlock::faults {

// So many grants to eight processes on two keys; those of the first 100,000 are judged, then those
// of the next.
Row run_grants(const Recipe&, std::size_t grants);

}  // namespace dlock::faults
