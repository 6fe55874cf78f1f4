// SPDX-License-Identifier: Apache-2.0
// What listens where a server is expected, and is none.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>
#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include "util/fd.hpp"

namespace dlock::test {

// Listens at 127.0.0.`host`; port 0 is a free one. Nobody accepts.
struct Listener {
  explicit Listener(std::uint16_t at = 0, std::uint32_t host = 1, int backlog = 64) {
    const int yes = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(at);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    socklen_t size = sizeof name;
    const auto address = reinterpret_cast<sockaddr*>(&name);
    if (::bind(fd.get(), address, size) != 0 || ::listen(fd.get(), backlog) != 0 ||
        ::getsockname(fd.get(), address, &size) != 0)
      throw std::runtime_error("cannot listen");
    port = ntohs(name.sin_port);
  }
  Fd accept() const { return Fd{::accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC)}; }

  const Fd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t port = 0;
};

inline void say(const Fd& peer, std::string_view text) {
  (void)::send(peer.get(), text.data(), text.size(), MSG_NOSIGNAL);
}
// Reads once; empty when the peer has closed.
inline std::string heard(const Fd& peer) {
  std::string text(8192, '\0');
  text.resize(static_cast<std::size_t>(
      std::max<ssize_t>(0, ::recv(peer.get(), text.data(), text.size(), 0))));
  return text;
}

// Calls `serve` on a thread of its own for each connection, one after the other.
class Stranger {
 public:
  explicit Stranger(std::function<void(Fd)> serve, std::uint16_t at = 0, std::uint32_t host = 1)
      : listener_(at, host), thread_([this, serve = std::move(serve)] {
          while (Fd peer = listener_.accept()) serve(std::move(peer));
        }) {}
  ~Stranger() {
    ::shutdown(listener_.fd.get(), SHUT_RDWR);
    thread_.join();
  }
  std::uint16_t port() const noexcept { return listener_.port; }

 private:
  const Listener listener_;
  std::thread thread_;
};

}  // namespace dlock::test
