// SPDX-License-Identifier: Apache-2.0
// In a test that is linked with this, getaddrinfo(3) asks here for names that end in ".test".
#pragma once
#include <string>
#include <vector>

namespace dlock::test::name_service {

void answer(const std::string& name, std::vector<std::string> addresses);  // none: no such host
void hang(const std::string& name);  // until the next answer() for it
unsigned asked(const std::string& name);

}  // namespace dlock::test::name_service
