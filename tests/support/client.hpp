// SPDX-License-Identifier: Apache-2.0
// Short forms for tests that use a backend directly.
#pragma once
#include <unistd.h>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include "store/factory.hpp"

namespace dlock::test {

// Throws with the message of the error.
std::unique_ptr<Backend> open_backend(const BackendFactory&, const std::string& url,
                                      const Settings&, std::string_view recipe);
Request request(const Key& key, Duration ttl = std::chrono::seconds{30});
Lease acquire_or_fail(Backend&, const Request&);  // granted by the first answer
void release_or_fail(Backend&, const Lease&);

// The answer to a call, which is made again while there is none: a server may be late on a busy
// machine. Throws the message of another error.
template <class Call>
auto answered(Call call) {
  auto answer = call();
  for (const Deadline end = later(Clock::now(), std::chrono::seconds{60});
       !answer && retryable(answer.error().code) && Clock::now() < end; ::usleep(20'000))
    answer = call();
  if (!answer) throw std::runtime_error(answer.error().message);
  if constexpr (!std::is_void_v<typename decltype(answer)::value_type>)
    return std::move(answer).value();
}
inline Progress answer_of(Waiter& w, Duration slice = Duration{0}) {
  return answered([&] { return w.poll(slice); });
}
inline Renewal renewed(Backend& b, const Lease& lease, Duration ttl) {
  return answered([&] { return b.renew(lease, ttl); });
}

}  // namespace dlock::test
