// SPDX-License-Identifier: Apache-2.0
// The addresses of a host, without waiting for the name service: getaddrinfo(3) has no deadline, so
// it runs in a thread of its own, here and nowhere else.
//
// Of one name at most one question is under way: who asks meanwhile shares its answer. A thread
// that hangs in the name service is never waited for; it ends when that gives up, or with the
// process. A literal address needs no thread.
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

bool is_address(const std::string& host) noexcept;  // a literal one

class Lookup {
 public:
  // Asks anew. Without an answer in a third of the time until then, and in 1 s at most, the
  // addresses of the last good answer are taken, if there is one.
  Lookup(const std::string& host, std::uint16_t port, Deadline until);
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  // nullopt: not yet; call again when fd() is readable, and at patience() at the latest.
  // Never empty. Errc::unavailable: there is no such host, or nothing is known at `until`.
  std::optional<Result<Addresses>> answer();
  int fd() const noexcept;  // -1: it is answered
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

// The same, waiting.
Result<Addresses> look_up(const std::string& host, std::uint16_t port, Deadline until);

}  // namespace dlock
