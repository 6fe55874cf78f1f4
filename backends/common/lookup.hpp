// SPDX-License-Identifier: Apache-2.0
// Finds the addresses of a host without waiting for the name service. getaddrinfo(3) has no
// deadline, so only this file calls it, on a separate thread.
//
// At most one lookup of a name is in flight; later callers share its answer. No caller waits for a
// thread that hangs in the name service: the thread ends when the service gives up, or with the
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

bool is_address(const std::string& host) noexcept;  // returns whether the host is a literal address

class Lookup {
 public:
  // Begins a new lookup. If an earlier lookup of this host was successful, the new lookup waits for
  // at most 1 s, or for a third of the time until `until` if that is shorter. If no new answer
  // comes, answer() returns the addresses of the earlier lookup.
  Lookup(const std::string& host, std::uint16_t port, Deadline until);
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  // nullopt: there is no answer yet; call again when fd() is readable, and no later than
  // patience(). A successful answer has at least one address. Errc::unavailable: the host does not
  // exist, or no address is known by `until`.
  std::optional<Result<Addresses>> answer();
  int fd() const noexcept;  // -1: there is an answer
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

// Like Lookup, but waits for the answer.
Result<Addresses> look_up(const std::string& host, std::uint16_t port, Deadline until);

}  // namespace dlock
