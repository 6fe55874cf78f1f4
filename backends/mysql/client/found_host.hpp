// SPDX-License-Identifier: Apache-2.0
// The client library itself looks up the host whose name it verifies in the certificate, which may
// take for ever. FoundHost answers that look-up with an address that we know.
#pragma once
#include <string>

namespace dlock::mysql {

// As long as this object and the two strings live, `host` has that address for this thread.
class FoundHost {
 public:
  FoundHost(const std::string& host, const std::string& address) noexcept;
  ~FoundHost();
  FoundHost(const FoundHost&) = delete;
  FoundHost& operator=(const FoundHost&) = delete;
};

}  // namespace dlock::mysql
