// SPDX-License-Identifier: Apache-2.0
// Short forms for tests that use a backend directly.
#pragma once
#include <memory>
#include <string>
#include "store/factory.hpp"

namespace dlock::test {

// Throws with the message of the error.
std::unique_ptr<Backend> open_backend(const BackendFactory&, const std::string& url,
                                      const Settings&, std::string_view recipe);
Request request(const Key& key, Duration ttl = std::chrono::seconds{10});
Lease acquire_or_fail(Backend&, const Request&);  // granted by the first answer
void release_or_fail(Backend&, const Lease&);

}  // namespace dlock::test
