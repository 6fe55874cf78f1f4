// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/session/session.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include "util/wait.hpp"
#include "zookeeper/session/session_callbacks.hpp"

namespace dlock::zookeeper {

using namespace std::chrono_literals;

namespace {

// One process at a time on a session: two would disconnect each other for ever. An abstract name is
// free again when its process ends, however it does. (Processes on other machines are not held off;
// they meet the same error as at every broken connection.)
Fd take_turn(std::int64_t session, Deadline until) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text =
      fmt::format("dlock-zookeeper-{:016x}", static_cast<std::uint64_t>(session));
  text.copy(name.sun_path + 1, sizeof name.sun_path - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  for (;;) {
    Fd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (fd && ::bind(fd.get(), reinterpret_cast<sockaddr*>(&name), size) == 0) return fd;
    if (Clock::now() >= until) return Fd{};
    ::poll(nullptr, 0, 2);
  }
}

}  // namespace

Session::Session(const Options& o, Duration timeout, std::optional<Ticket> ticket,
                 std::uint64_t connections, Duration lock_delay)
    : options_(o),
      asked_(timeout),
      // A silent server is left for the next one sooner than the library would, which gives it two
      // thirds of the timeout.
      patience_(std::max<Duration>(
          100ms, std::min<Duration>((timeout - lock_delay) / 10, o.connect_timeout))),
      proof_(o.tick),
      connections_(connections) {
  clientid_t id{};
  if (ticket) {
    id.client_id = ticket->id;
    ticket->password.copy(id.passwd, sizeof id.passwd);
    turn_ = take_turn(ticket->id, Clock::now() + o.op_timeout);
    if (!turn_) {
      init_error_ = EBUSY;
      return;
    }
  }
  zoo_set_debug_level(static_cast<ZooLogLevel>(0));
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  attempt_at_ = Clock::now();
  errno = 0;
  handle_ = zookeeper_init(o.servers.c_str(), Callbacks::session,
                           static_cast<int>(std::min<std::int64_t>(ms, INT32_MAX)),
                           ticket ? &id : nullptr, this, 0);
  if (!handle_) {
    init_error_ = errno == 0 ? EHOSTUNREACH : errno;
    return;
  }
  zoo_set_servers_resolution_delay(handle_,
                                   // names are resolved when a connection is lost, not whenever a
                                   // socket is checked
                                   -1);
  log_in();
}

void Session::log_in() {
  const std::string& auth = options_.auth;
  const std::size_t colon = auth.find(':');
  if (!handle_ || colon == auth.npos) return;
  const std::string credential = auth.substr(colon + 1);
  zoo_add_auth(handle_, auth.substr(0, colon).c_str(), credential.data(),
               static_cast<int>(credential.size()), nullptr, nullptr);
}

Session::~Session() {
  if (!handle_) return;
  if (keep_) drop();
  zookeeper_close(handle_);  // answers every open Call
}

Session::State Session::state() const {
  if (!handle_) return State::connecting;
  const int s = zoo_state(handle_);
  if (s == ZOO_EXPIRED_SESSION_STATE) return State::expired;
  if (s == ZOO_AUTH_FAILED_STATE) return State::denied;
  return s == ZOO_CONNECTED_STATE ? State::connected : State::connecting;
}

std::int64_t Session::id() const { return handle_ ? zoo_client_id(handle_)->client_id : 0; }
Ticket Session::ticket() const {
  const clientid_t* id = zoo_client_id(handle_);
  return {id->client_id, std::string{id->passwd, sizeof id->passwd}};
}
Duration Session::timeout() const {
  return std::chrono::milliseconds{handle_ ? zoo_recv_timeout(handle_) : 0};
}

void Session::on_state(int state) {
  ++news_;
  if (state != ZOO_CONNECTED_STATE) return;
  ++connections_;
  proof_.attached(attempt_at_, Clock::now(), timeout());
  watch_socket();
}

void Session::note_descriptor(int fd, Deadline began) {
  if (fd == fd_) return;
  fd_ = fd;
  if (fd < 0) return;
  attempt_at_ = began;
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

int Session::alarm_fd() {
  if (!alarm_) {
    alarm_.reset(::epoll_create1(EPOLL_CLOEXEC));
    watch_socket();
  }
  return alarm_.get();
}

// Only a connected socket: one that fails to connect would be readable for ever.
void Session::watch_socket() {
  if (!alarm_ || fd_ < 0 || state() != State::connected) return;
  epoll_event e{.events = EPOLLIN, .data = {}};
  ::epoll_ctl(alarm_.get(), EPOLL_CTL_ADD, fd_, &e);
}

Session::Heard Session::listen(Deadline until, int interrupt_fd) {
  for (const std::uint64_t before = news_;;) {
    int fd = -1, interest = 0;
    timeval tv{};
    const Deadline asked = Clock::now();
    zookeeper_interest(handle_, &fd, &interest, &tv);  // its errors are in the state afterwards
    if (zoo_state(handle_) == 0) fd = -1;              // it has closed it
    note_descriptor(fd, asked);
    if (news_ != before || over()) return Heard::something;
    Deadline wake = std::min<Deadline>(until, Clock::now() + std::chrono::seconds{tv.tv_sec} +
                                                  std::chrono::microseconds{tv.tv_usec});
    const bool connecting = fd >= 0 && state() != State::connected;
    if (connecting) wake = std::min<Deadline>(wake, attempt_at_ + patience_);
    short events = 0;
    if (interest & ZOOKEEPER_READ) events |= POLLIN;
    if (interest & ZOOKEEPER_WRITE) events |= POLLOUT;
    pollfd p[] = {{fd, events, 0}, {interrupt_fd, POLLIN, 0}};
    wait_until(p, wake);
    if (fd >= 0 && p[0].revents != 0) {
      const int ready =
          ((p[0].revents & (POLLIN | POLLHUP | POLLERR)) ? interest & ZOOKEEPER_READ : 0) |
          ((p[0].revents & (POLLOUT | POLLHUP | POLLERR)) ? interest & ZOOKEEPER_WRITE : 0);
      zookeeper_process(handle_, ready);
      if (zoo_state(handle_) == 0) fd_ = -1;
      if (news_ != before || over()) return Heard::something;
    } else if (connecting && Clock::now() >= attempt_at_ + patience_) {
      drop();
    }
    if (p[1].revents != 0) return Heard::interrupted;
    if (Clock::now() >= until) return Heard::nothing;
  }
}

Result<void> Session::connect(Deadline until, int interrupt_fd) {
  if (!handle_)
    return fail(Errc::unavailable,
                init_error_ == EBUSY
                    ? fmt::format("{}: another process is using this handle", options_.where)
                    : fmt::format("{}: the servers' names cannot be resolved ({})", options_.where,
                                  ::strerrordesc_np(init_error_)));
  listen(Deadline{});  // what has arrived meanwhile: events, or the end of the connection
  while (state() == State::connecting) {
    const Heard heard = listen(until, interrupt_fd);
    if (state() != State::connecting) break;
    if (heard == Heard::interrupted)
      return fail(Errc::unavailable,
                  fmt::format("{}: interrupted while connecting", options_.where));
    if (Clock::now() >= until)
      return fail(Errc::unavailable, fmt::format("{}: no server answers", options_.where));
  }
  if (state() == State::denied) return fail(server_error(options_, "connect", ZAUTHFAILED));
  return {};
}

void Session::drop() {
  if (!handle_ || fd_ < 0) return;
  ::shutdown(fd_, SHUT_RDWR);
  // What the server had already sent comes first, then the end of the connection.
  const std::uint64_t connection = connections_;
  for (int turns = 0; turns < 1000 && fd_ >= 0 && connections_ == connection; ++turns) {
    const int was = zoo_state(handle_);
    if (zookeeper_process(
            handle_, ZOOKEEPER_READ | (was == ZOO_CONNECTING_STATE ? ZOOKEEPER_WRITE : 0)) != ZOK)
      break;
    if (zoo_state(handle_) == 0) break;
  }
  fd_ = -1;
}

bool Session::finish(std::initializer_list<const Call*> calls, Deadline until) {
  const auto done = [&] {
    return std::all_of(calls.begin(), calls.end(), [](const Call* c) { return c->done(); });
  };
  while (!done()) {
    if (over()) break;
    if (listen(until) == Heard::nothing && !done()) {
      drop();  // this answers them all, with "unknown"
      return false;
    }
  }
  return done();
}

WatchId Session::new_watch() {
  watches_[++last_watch_] = false;
  return last_watch_;
}
bool Session::fired(WatchId id) const {
  const auto at = watches_.find(id);
  return at != watches_.end() && at->second;
}

}  // namespace dlock::zookeeper
