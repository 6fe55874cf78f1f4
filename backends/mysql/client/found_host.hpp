// SPDX-License-Identifier: Apache-2.0
// The client library looks up the host by the name that it verifies in the certificate, and the
// lookup may take for ever. FoundHost answers the lookup with an address that we already know.
#pragma once
#include <string>

namespace dlock::mysql {

// While this object exists, a lookup of `host` in this thread returns `address`. Both strings must
// outlive the object.
class FoundHost {
 public:
  FoundHost(const std::string& host, const std::string& address) noexcept;
  ~FoundHost();
  FoundHost(const FoundHost&) = delete;
  FoundHost& operator=(const FoundHost&) = delete;
};

}  // namespace dlock::mysql
