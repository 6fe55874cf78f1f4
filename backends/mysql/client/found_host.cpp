// SPDX-License-Identifier: Apache-2.0
#include "mysql/client/found_host.hpp"
#include <dlfcn.h>
#include <netdb.h>

namespace {

thread_local const std::string *known_host = nullptr, *known_address = nullptr;

}  // namespace

namespace dlock::mysql {

FoundHost::FoundHost(const std::string& host, const std::string& address) noexcept {
  known_host = &host;
  known_address = &address;
}
FoundHost::~FoundHost() { known_host = nullptr; }

}  // namespace dlock::mysql

// Replaces libc's getaddrinfo for the whole program. It calls libc's function with the known
// address, which libc parses without a lookup. The function is visible, so that a dynamically
// linked client library finds it whatever the compiler's flags are.
extern "C" [[gnu::visibility("default")]] int getaddrinfo(const char* host, const char* port,
                                                          const addrinfo* hints, addrinfo** out) {
  using Real = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<Real>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const bool known = host && known_host && *known_host == host;
  return real(known ? known_address->c_str() : host, port, hints, out);
}
