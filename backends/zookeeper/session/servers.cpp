// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/session/servers.hpp"
#include <fmt/format.h>
#include <netinet/in.h>
#include <algorithm>
#include "core/text.hpp"
#include "util/wait.hpp"

namespace dlock::zookeeper {
namespace {

// How long to wait for the addresses of the other names after the first name has an address.
// Without this wait, all clients would use the server whose name resolves fastest (RFC 8305's
// Resolution Delay).
constexpr Duration company = std::chrono::milliseconds{50};

unsigned port_of(const Address& a) {
  return ntohs(a.bytes.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&a.bytes)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&a.bytes)->sin_port);
}

}  // namespace

Servers::Servers(const std::vector<Url::Host>& hosts, Deadline until) {
  for (const Url::Host& host : hosts)
    lookups_.emplace_back(host.name, host.port.value_or(0), until);
}

std::optional<Result<std::string>> Servers::answer() {
  std::string known;
  std::optional<Error> error;
  bool all = true;
  for (Lookup& one : lookups_) {
    const auto found = one.answer();
    all = all && found;
    if (!found) continue;
    if (!*found && !error) error = found->error();
    if (*found)
      for (const Address& a : **found)
        add_part(known, fmt::format("{}:{}", a.text(), port_of(a)), ",");
  }
  const Deadline now = Clock::now();
  if (!known.empty() && !first_) first_ = now;
  if (!all && (!first_ || now < *first_ + company)) return std::nullopt;
  if (known.empty()) return fail(std::move(*error));
  return known;
}

bool Servers::wait(int interrupt_fd) {
  std::vector<pollfd> fds{{interrupt_fd, POLLIN, 0}};
  Deadline until = first_ ? *first_ + company : Deadline::max();
  for (const Lookup& one : lookups_) {
    if (one.fd() < 0) continue;
    fds.push_back({one.fd(), POLLIN, 0});
    until = std::min(until, one.patience());
  }
  wait_until(fds, until);
  return fds.front().revents == 0;
}

}  // namespace dlock::zookeeper
