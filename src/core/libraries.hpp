// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace dlock {

// The client libraries that the backends of this binary use, with the versions that run now:
// "OpenSSL 3.0.17". Each once. Defined beside backends().
std::vector<std::string> libraries();

}  // namespace dlock
