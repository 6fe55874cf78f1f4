// SPDX-License-Identifier: Apache-2.0
#include "run/keeper_socket.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <cstring>
#include "core/number.hpp"
#include "core/text.hpp"
#include "job/process.hpp"
#include "job/unix_socket.hpp"

namespace dlock::run {
namespace {

constexpr timeval patience{5, 0}, short_patience{0, 500'000};

AbstractAddress address_of(std::string_view name) {
  return AbstractAddress(fmt::format("dlock-keeper/{}", name.substr(0, 64)));
}

bool trusted_peer(int fd) {
  const auto peer = peer_of(fd);
  return peer && is_trusted(*peer);
}

void give_up_after(int fd, const timeval& t) {
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}

std::string receive(int fd) {
  std::array<char, 128> text;
  const ssize_t n = ::recv(fd, text.data(), text.size(), 0);
  return n > 0 ? std::string(text.data(), static_cast<std::size_t>(n)) : std::string();
}

constexpr std::string_view answers[] = {"done", "not held", "unknown"};  // indexed by KeeperAnswer

std::string this_boot() {
  std::string id = read_beginning("/proc/sys/kernel/random/boot_id");
  std::erase_if(id, [](char c) { return (c < '0' || c > '9') && (c < 'a' || c > 'f'); });
  return id.size() == 32 ? id.substr(0, 16) : std::string();
}

// Returns whether a keeper is certainly dead. Call it if nobody listens on the keeper's socket. If
// the keeper is of this boot and shares a namespace with us, its socket or its pid would be visible
// here. Otherwise the keeper may live.
bool is_dead(const KeeperAddress& keeper) {
  const KeeperAddress here = KeeperAddress::of_this_process({});
  if (keeper.boot.empty() || keeper.boot != here.boot) return false;
  if (keeper.network != 0 && keeper.network == here.network) return true;
  if (keeper.processes == 0 || keeper.processes != here.processes || keeper.pid <= 0) return false;
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, keeper.pid, 0)));
  if (!process) return errno == ESRCH;
  pollfd ended{process.get(), POLLIN, 0};  // a zombie is dead too
  return ::poll(&ended, 1, 0) == 1;
}

}  // namespace

KeeperAddress KeeperAddress::of_this_process(std::string name) {
  return {std::move(name), this_boot(), own_namespace("net"), own_namespace("pid"), ::getpid()};
}

std::string KeeperAddress::text() const {
  return fmt::format("{}.{}.{}.{}.{}", name, boot, network, processes, pid);
}

KeeperAddress KeeperAddress::parse(std::string_view text) {
  const auto number = [&]<class T>(T& to) {
    to = parse_number<T>(next_part(text, '.')).value_or(0);
  };
  KeeperAddress k{std::string(next_part(text, '.'))};
  k.boot = next_part(text, '.');
  number(k.network);
  number(k.processes);
  number(k.pid);
  return k;
}

Result<Fd> listen_as_keeper(std::string_view name) {
  const AbstractAddress at = address_of(name);
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::bind(fd.get(), at.get(), at.size) != 0 || ::listen(fd.get(), 16) != 0)
    return fail(Errc::unavailable, "no socket for the keeper: {}", ::strerrordesc_np(errno));
  return fd;
}

Result<KeeperAnswer> query_keeper(const KeeperAddress& keeper, std::string_view what,
                                  const Owner& owner) {
  const AbstractAddress at = address_of(keeper.name);
  const Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return fail(Errc::unavailable, "no socket: {}", ::strerrordesc_np(errno));
  give_up_after(fd.get(), patience);
  if (::connect(fd.get(), at.get(), at.size) != 0) {
    const int why = errno;
    if (why == ECONNREFUSED && is_dead(keeper)) return KeeperAnswer::not_held;
    if (why == ECONNREFUSED)
      return fail(Errc::unavailable,
                  "the keeper of this lock, process {}, cannot be "
                  "reached from this network namespace or host, and "
                  "may be alive",
                  keeper.pid);
    return fail(Errc::unavailable, "the keeper cannot be reached: {}", ::strerrordesc_np(why));
  }
  if (!trusted_peer(fd.get()))
    return fail(Errc::denied, "another user has taken the place of the keeper");
  const std::string request = fmt::format("{} {}", what, owner.hex());
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0)
    return fail(Errc::timed_out, "the keeper does not listen: {}", ::strerrordesc_np(errno));
  const std::string reply = receive(fd.get());
  for (const KeeperAnswer a : {KeeperAnswer::done, KeeperAnswer::not_held})
    if (reply == answers[static_cast<std::size_t>(a)]) return a;
  if (reply == answers[static_cast<std::size_t>(KeeperAnswer::unknown)])
    return fail(Errc::timed_out, "the keeper does not know the state of the lock");
  return fail(Errc::timed_out, "the keeper did not answer");
}

KeeperRequest next_request(int listener, const Owner& owner) {
  KeeperRequest q{{}, Fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC))};
  if (!q.reply || !trusted_peer(q.reply.get())) return {};
  give_up_after(q.reply.get(), short_patience);
  const std::string text = receive(q.reply.get());
  for (const std::string_view what : {"renew", "release", "check"})
    if (text == fmt::format("{} {}", what, owner.hex())) q.what = what;
  if (q.what.empty()) answer(q, KeeperAnswer::not_held);
  return q;
}

void answer(const KeeperRequest& q, KeeperAnswer a) noexcept {
  const std::string_view text = answers[static_cast<std::size_t>(a)];
  if (q.reply) ::send(q.reply.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

}  // namespace dlock::run
