// SPDX-License-Identifier: Apache-2.0
#include "support/name_service.hpp"
#include <dlfcn.h>
#include <netdb.h>
#include <condition_variable>
#include <map>
#include <mutex>

namespace dlock::test::name_service {
namespace {

struct Name {
  bool hangs = false;
  std::vector<std::string> addresses;
  unsigned asked = 0;
};
// Never destroyed: a thread may ask at the end.
struct Service {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Name> names;
};
Service& service() {
  static Service* const one = new Service;
  return *one;
}

}  // namespace

void answer(const std::string& name, std::vector<std::string> addresses) {
  const std::lock_guard lock(service().mutex);
  Name& n = service().names[name];
  n.hangs = false;
  n.addresses = std::move(addresses);
  service().changed.notify_all();
}

void hang(const std::string& name) {
  const std::lock_guard lock(service().mutex);
  service().names[name].hangs = true;
}

unsigned asked(const std::string& name) {
  const std::lock_guard lock(service().mutex);
  return service().names[name].asked;
}

}  // namespace dlock::test::name_service

extern "C" int getaddrinfo(const char* node, const char* port, const addrinfo* hints,
                           addrinfo** out) {
  using namespace dlock::test::name_service;
  using Real = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<Real>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const std::string name = node ? node : "";
  if (!name.ends_with(".test") || (hints && (hints->ai_flags & AI_NUMERICHOST)))
    return real(node, port, hints, out);
  std::vector<std::string> addresses;
  {
    std::unique_lock lock(service().mutex);
    Name& n = service().names[name];
    ++n.asked;
    service().changed.wait(lock, [&] { return !n.hangs; });
    addresses = n.addresses;
  }
  *out = nullptr;
  addrinfo numeric = hints ? *hints : addrinfo{};
  numeric.ai_flags = AI_NUMERICHOST;
  addrinfo** end = out;
  for (const std::string& address : addresses) {
    if (const int error = real(address.c_str(), port, &numeric, end); error != 0) return error;
    while (*end) end = &(*end)->ai_next;
  }
  return *out ? 0 : EAI_NONAME;
}
