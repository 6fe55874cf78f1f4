// SPDX-License-Identifier: Apache-2.0
// Unix sockets (unix(7)): abstract names, the peer's credentials, and descriptors that are sent
// with a message.
#pragma once
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>
#include "util/fd.hpp"

namespace dlock::run {

// An abstract name of at most 107 bytes. It needs no file, and ends with its socket.
struct AbstractAddress {
  explicit AbstractAddress(std::string_view name) {
    un.sun_family = AF_UNIX;
    std::memcpy(un.sun_path + 1, name.data(), name.size());  // the leading NUL makes it abstract
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&un); }

  sockaddr_un un{};
  socklen_t size;
};

// Returns the process at the other end: the process that connected, or that called listen(2).
inline std::optional<ucred> peer_of(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}
inline bool is_trusted(const ucred& peer) { return peer.uid == ::geteuid() || peer.uid == 0; }

inline constexpr std::size_t most_attached = 253;  // the SCM_MAX_FD of the kernel

// The control data of one message. It must live as long as the msghdr that points to it.
class Attached {
 public:
  // For sending: attaches `count` descriptors, which must not be more than `most_attached`.
  void put(msghdr& h, const int* fds, std::size_t count) {
    if (count == 0) return;
    std::memset(control_, 0, sizeof control_);
    h.msg_control = control_;
    h.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    cmsghdr* c = CMSG_FIRSTHDR(&h);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * count);
    std::memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
  }
  // For receiving: call prepare() before recvmsg(), and take() after it. Descriptors that could not
  // be opened are lost, and the kernel sets MSG_CTRUNC.
  void prepare(msghdr& h) {
    h.msg_control = control_;
    h.msg_controllen = sizeof control_;
  }
  static void take(const msghdr& h, std::vector<Fd>& out) {
    const cmsghdr* c = CMSG_FIRSTHDR(&h);
    if (!c || c->cmsg_type != SCM_RIGHTS) return;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    out.reserve(out.size() + count);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      out.emplace_back(fd);
    }
  }

 private:
  alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(int) * most_attached)];
};

// A message of one byte, to carry descriptors.
struct Carrier {
  Carrier() {
    header.msg_iov = &part_;
    header.msg_iovlen = 1;
  }
  Carrier(const Carrier&) = delete;  // the object contains pointers into itself
  Carrier& operator=(const Carrier&) = delete;

  msghdr header{};
  Attached attached;

 private:
  char text_ = 0;
  iovec part_{&text_, sizeof text_};
};

}  // namespace dlock::run
