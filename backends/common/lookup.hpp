// SPDX-License-Identifier: Apache-2.0
// Finds the addresses of a host without waiting for the name service. getaddrinfo(3) has no
// deadline, so this file alone calls it, in a thread of its own.
//
// At most one lookup of a name is in flight; later callers share its answer. Nobody waits for a
// thread that hangs in the name service: it ends when the service gives up, or with the process. A
// literal address needs no thread.
#pragma once
#include <sys/socket.h>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include "core/clock.hpp"
#include "core/error.hpp"

namespace dlock {

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&bytes); }
  std::string text() const;  // without the port: "10.0.0.1", "fe80::1%eth0"
};
using Addresses = std::vector<Address>;

bool is_address(const std::string& host) noexcept;  // whether the host is a literal address

class Lookup {
 public:
  // Begins a new lookup. If there is no answer after a third of the time, or 1 s at most, the
  // addresses of the last good answer are used, if there was one.
  Lookup(const std::string& host, std::uint16_t port, Deadline until);
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  // nullopt: no answer yet; call again when fd() is readable, and no later than patience().
  // Addresses are never empty. Errc::unavailable: the host does not exist, or nothing is known at
  // `until`.
  std::optional<Result<Addresses>> answer();
  int fd() const noexcept;  // -1: the answer is there
  Deadline patience() const noexcept { return patience_; }

 private:
  struct Question;
  struct Names;
  Addresses with_port(const Addresses&) const;

  std::string host_;
  std::uint16_t port_;
  Deadline until_, patience_;
  std::optional<Result<Addresses>> known_;
  std::shared_ptr<Question> question_;
};

// The same, but waits for the answer.
Result<Addresses> look_up(const std::string& host, std::uint16_t port, Deadline until);

}  // namespace dlock
