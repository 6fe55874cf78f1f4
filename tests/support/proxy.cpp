// SPDX-License-Identifier: Apache-2.0
#include "support/proxy.hpp"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>
#include <vector>

namespace dlock::test {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = htons(port);
  return a;
}

void reset(Fd& fd) {
  const linger at_once{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  fd.reset();
}

// Looks once at least, and until `bound` has passed.
template <class Condition>
bool comes(Duration bound, Condition condition) {
  for (const Deadline until = later(Clock::now(), bound);; ::usleep(500)) {
    if (condition()) return true;
    if (Clock::now() >= until) return false;
  }
}

}  // namespace

Proxy::Proxy(std::uint16_t target)
    : target_(target),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  sockaddr_in a = loopback(0);
  socklen_t size = sizeof a;
  if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&a), size) != 0 ||
      ::listen(listener_.get(), 1024) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&a), &size) != 0)
    throw std::runtime_error("proxy: cannot listen");
  port_ = ntohs(a.sin_port);
  thread_ = std::thread{[this] { run(); }};
}

Proxy::~Proxy() {
  {
    const std::lock_guard lock{mutex_};
    stop_ = true;
  }
  wake();
  thread_.join();
}

void Proxy::wake() {
  const std::uint64_t one = 1;
  (void)!::write(event_.get(), &one, sizeof one);
}

void Proxy::delay(Side side, Duration d) {
  const std::lock_guard lock{mutex_};
  rules_.delay[side] = d;
}
void Proxy::stall(Side side, bool on) {
  {
    const std::lock_guard lock{mutex_};
    rules_.stall[side] = on;
  }
  wake();
}
void Proxy::drip(Side side, std::size_t bytes, Duration every) {
  const std::lock_guard lock{mutex_};
  rules_.drip[side] = bytes;
  rules_.drip_every[side] = every;
}
void Proxy::refuse(bool on) {
  const std::lock_guard lock{mutex_};
  rules_.refuse = on;
}
void Proxy::blackhole(bool on) {
  const std::lock_guard lock{mutex_};
  rules_.blackhole = on;
}
void Proxy::cut() {
  {
    const std::lock_guard lock{mutex_};
    for (Link& link : links_) link.dead = true;
  }
  wake();
}
void Proxy::lose_reply(std::string text, bool quietly) {
  const std::lock_guard lock{mutex_};
  rules_.lose = std::move(text);
  rules_.quietly = quietly;
  ++asked_to_lose_;
}
void Proxy::keep_replies() {
  const std::lock_guard lock{mutex_};
  rules_.lose.reset();
}
bool Proxy::lost_one(Duration bound) {
  return comes(bound, [&] {
    const std::lock_guard lock{mutex_};
    return lost_ == asked_to_lose_;
  });
}

void Proxy::hold(std::string text) {
  const std::lock_guard lock{mutex_};
  rules_.hold = std::move(text);
}
bool Proxy::holds_one(Duration bound) {
  return comes(bound, [&] {
    const std::lock_guard lock{mutex_};
    return std::any_of(links_.begin(), links_.end(), [](const Link& l) { return l.held; });
  });
}
void Proxy::let_go() {
  {
    const std::lock_guard lock{mutex_};
    rules_.hold.reset();
    for (Link& link : links_)
      if (std::exchange(link.held, false)) link.late = true;
  }
  wake();
}
bool Proxy::answered(Duration bound) {
  return comes(bound, [&] {
    const std::lock_guard lock{mutex_};
    return std::none_of(links_.begin(), links_.end(), [](const Link& l) { return l.late; });
  });
}

void Proxy::accept_one() {
  Fd client{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
  if (!client) return;
  const std::lock_guard lock{mutex_};
  if (rules_.refuse) return reset(client);
  Link link;
  if (!rules_.blackhole) {
    Fd server{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const sockaddr_in a = loopback(target_);
    if (::connect(server.get(), reinterpret_cast<const sockaddr*>(&a), sizeof a) != 0)
      return reset(client);
    const int one = 1;
    for (const int fd : {server.get(), client.get()})
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    link.end[to_server] = std::move(server);
  }
  link.end[to_client] = std::move(client);
  links_.push_back(std::move(link));
}

// Takes what arrived from the side opposite to `side`, to be sent to `side`.
void Proxy::read_from(Link& link, Side side) {
  char buffer[65536];
  const ssize_t n = ::recv(link.end[1 - side].get(), buffer, sizeof buffer, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (side == to_client) link.late = false;
  if (n <= 0) {
    link.closing[side] = true;
    // a client that gave up may reset
    if (n < 0 && !(side == to_server && (link.held || link.late))) link.dead = true;
    return;
  }
  const std::string_view bytes{buffer, static_cast<std::size_t>(n)};
  if (side == to_server && rules_.hold && bytes.find(*rules_.hold) != bytes.npos) {
    link.held = true;
    rules_.hold.reset();
  }
  if (side == to_server && rules_.lose && !link.losing) {
    link.seen.append(bytes);
    if (link.seen.find(*rules_.lose) != std::string::npos) {
      link.losing = true;
      rules_.lose.reset();
    }
    if (link.seen.size() > 4096) link.seen.erase(0, link.seen.size() - 4096);
  }
  if (side == to_client && link.losing) {
    link.losing = false;
    ++lost_;
    link.dead = !rules_.quietly;
    return;
  }
  link.queue[side].push_back({later(Clock::now(), rules_.delay[side]), std::string{bytes}});
}

void Proxy::write_to(Link& link, Side side) {
  if (side == to_server && link.held) return;
  auto& queue = link.queue[side];
  const Deadline now = Clock::now();
  while (!queue.empty() && queue.front().due <= now && !rules_.stall[side]) {
    std::string& bytes = queue.front().bytes;
    std::size_t most = bytes.size();
    if (rules_.drip[side] > 0) {
      if (now < link.next_drip[side]) return;
      most = std::min(most, rules_.drip[side]);
      link.next_drip[side] = later(now, rules_.drip_every[side]);
    }
    const ssize_t n = ::send(link.end[side].get(), bytes.data(), most, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno != EAGAIN && errno != EINTR) link.dead = true;
      return;
    }
    bytes.erase(0, static_cast<std::size_t>(n));
    if (bytes.empty()) queue.pop_front();
  }
  // half-open connections are not needed here
  if (queue.empty() && link.closing[side] && !link.late) link.dead = true;
}

void Proxy::run() {
  for (;;) {
    std::vector<pollfd> fds{{event_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    int timeout = 1000;
    {
      const std::lock_guard lock{mutex_};
      if (stop_) return;
      for (auto link = links_.begin(); link != links_.end();) {
        if (link->dead) {
          for (Fd& fd : link->end)
            if (fd) reset(fd);
          link = links_.erase(link);
          continue;
        }
        for (const Side side : {to_server, to_client}) {
          const bool ends = link->closing[1 - side];
          fds.push_back({ends && (link->held || link->late) ? -1 : link->end[side].get(),
                         static_cast<short>(ends ? 0 : POLLIN), 0});
          if (!link->queue[side].empty() && !(side == to_server && link->held)) timeout = 1;
        }
        ++link;
      }
    }
    if (::poll(fds.data(), fds.size(), timeout) < 0) continue;
    std::uint64_t n = 0;
    (void)!::read(event_.get(), &n, sizeof n);
    {
      const std::lock_guard lock{mutex_};
      std::size_t at = 2;
      for (Link& link : links_) {
        for (const Side side : {to_server, to_client}) {
          const pollfd& p = fds[at++];
          if ((p.revents & (POLLIN | POLLHUP | POLLERR)) != 0)
            read_from(link, static_cast<Side>(1 - side));
        }
        if (!link.end[to_server]) continue;
        for (const Side side : {to_server, to_client})
          if (!link.dead) write_to(link, side);
      }
    }
    if (fds[1].revents != 0) accept_one();
  }
}

}  // namespace dlock::test
