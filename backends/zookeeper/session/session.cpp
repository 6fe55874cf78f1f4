// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/session/session.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include "util/wait.hpp"
#include "zookeeper/session/servers.hpp"

namespace dlock::zookeeper {

using namespace std::chrono_literals;

namespace {

// Lets only one process at a time use a session, because two would disconnect each other for ever.
// An abstract socket name is free again when its process ends, however it ends. (Processes on other
// machines are not held off; they see the same error as with every broken connection.)
Fd await_turn(std::int64_t session, Deadline until) {
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

// Ids of connections and watches, unique across Sessions.
std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// Returns the text of an errno with which an attempt to connect can fail, and "" for any other.
std::string refusal(int error) {
  for (const int one : {ECONNREFUSED, ECONNRESET, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT})
    if (error == one) return std::generic_category().message(error);
  return {};
}

}  // namespace

Session::Session(const Options& o, Duration timeout, const std::optional<Ticket>& ticket,
                 Duration lock_delay)
    : options_(o),
      requested_(timeout),
      // With this patience dlock leaves a silent server sooner than the library, which would give
      // the server two thirds of the timeout.
      patience_(std::max<Duration>(
          100ms, std::min<Duration>((timeout - lock_delay) / 10, o.connect_timeout))),
      resumed_(ticket.value_or(Ticket{})),
      proof_(o.tick) {}

Result<void> Session::set_servers(const std::string& servers) {
  if (handle_) {
    if (servers != servers_) zoo_set_servers(handle_, servers.c_str());
    servers_ = servers;
    return {};
  }
  clientid_t id{};
  id.client_id = resumed_.id;
  resumed_.password.copy(id.passwd, sizeof id.passwd);
  zoo_set_debug_level(static_cast<ZooLogLevel>(0));
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(requested_).count();
  const auto watcher = [](zhandle_t*, int type, int state, const char*, void* session) {
    if (type == ZOO_SESSION_EVENT) static_cast<Session*>(session)->on_state(state);
  };
  handle_ = zookeeper_init(servers.c_str(), watcher,
                           static_cast<int>(std::min<std::int64_t>(ms, INT32_MAX)),
                           id.client_id != 0 ? &id : nullptr, this, 0);
  if (!handle_) return fail(Errc::unavailable, "{}: no session with {}", options_.where, servers);
  servers_ = servers;
  // The library must not look up names whenever it checks a socket: dlock looks them up when a
  // connection is lost.
  zoo_set_servers_resolution_delay(handle_, -1);
  log_in();
  return {};
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
  zookeeper_close(handle_);  // every open Call gets its reply here
}

Session::State Session::state() const {
  if (!handle_) return State::connecting;
  const int s = zoo_state(handle_);
  if (s == ZOO_EXPIRED_SESSION_STATE) return State::expired;
  if (s == ZOO_AUTH_FAILED_STATE) return State::denied;
  return s == ZOO_CONNECTED_STATE ? State::connected : State::connecting;
}

bool Session::left() const { return zoo_state(handle_) == 0 || over(); }

std::int64_t Session::id() const {
  return handle_ ? zoo_client_id(handle_)->client_id : resumed_.id;
}
Ticket Session::ticket() const {
  if (!handle_) return resumed_;
  const clientid_t* id = zoo_client_id(handle_);
  return {id->client_id, std::string{id->passwd, sizeof id->passwd}};
}
Duration Session::timeout() const {
  return std::chrono::milliseconds{handle_ ? zoo_recv_timeout(handle_) : 0};
}

bool Session::turned_away() const {
  return connection_ != 0 && Clock::now() > later(turned_away_at_, timeout());
}

void Session::on_state(int state) {
  ++news_;
  if (state != ZOO_CONNECTED_STATE) return;
  turned_away_at_ = no_deadline;
  connection_ = next_number();
  silences_ = 0;
  fault_.clear();
  proof_.attached(attempt_at_, Clock::now(), timeout());
  watch_socket();
}

// Every eighth attempt gives the server the full time, because a server may be slow but not frozen.
Duration Session::patience() const {
  return silences_ % 8 == 0 ? patience_ : std::max<Duration>(100ms, patience_ / 8);
}

void Session::note_fault(std::string_view what) {
  if (what.empty()) return;
  fault_ = fmt::format("{}: {}", zoo_get_current_server(handle_), what);
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

// Watch only a connected socket: a socket that fails to connect would stay readable.
void Session::watch_socket() {
  if (!alarm_ || fd_ < 0 || state() != State::connected) return;
  epoll_event e{.events = EPOLLIN, .data = {}};
  ::epoll_ctl(alarm_.get(), EPOLL_CTL_ADD, fd_, &e);
}

Session::Wake Session::listen(Deadline until, int interrupt_fd) {
  return fd_ < 0 ? Wake::event : pump(until, interrupt_fd);
}

Session::Wake Session::pump(Deadline until, int interrupt_fd) {
  for (const std::uint64_t before = news_;;) {
    int fd = -1, interest = 0;
    timeval tv{};
    const Deadline sent = Clock::now();
    errno = 0;
    zookeeper_interest(handle_, &fd, &interest, &tv);  // its errors show in the state
    if (left()) {
      fd = -1;
      note_fault(refusal(errno));
    }
    note_descriptor(fd, sent);
    if (news_ != before || over()) return Wake::event;
    Deadline wake = std::min<Deadline>(until, Clock::now() + std::chrono::seconds{tv.tv_sec} +
                                                  std::chrono::microseconds{tv.tv_usec});
    const bool connecting = fd >= 0 && state() != State::connected;
    const Deadline patient_until = attempt_at_ + patience();
    if (connecting) wake = std::min<Deadline>(wake, patient_until);
    short events = 0;
    if (interest & ZOOKEEPER_READ) events |= POLLIN;
    if (interest & ZOOKEEPER_WRITE) events |= POLLOUT;
    pollfd p[] = {{fd, events, 0}, {interrupt_fd, POLLIN, 0}};
    wait_until(p, wake);
    if (fd >= 0 && p[0].revents != 0) {
      const int ready =
          ((p[0].revents & (POLLIN | POLLHUP | POLLERR)) ? interest & ZOOKEEPER_READ : 0) |
          ((p[0].revents & (POLLOUT | POLLHUP | POLLERR)) ? interest & ZOOKEEPER_WRITE : 0);
      const bool introduced = zoo_state(handle_) == ZOO_ASSOCIATING_STATE;
      int arrived = 0;
      const bool talks = introduced && ::ioctl(fd, FIONREAD, &arrived) == 0 && arrived > 0;
      errno = 0;
      zookeeper_process(handle_, ready);
      if (left()) fd_ = -1;
      if (talks && state() == State::connecting) note_fault("it does not speak ZooKeeper");
      else if (introduced && fd_ < 0) note_fault("it ends the connection without an answer");
      else if (connecting && fd_ < 0) note_fault(refusal(errno));
      if (introduced && fd_ < 0) turned_away_at_ = std::min(turned_away_at_, Clock::now());
      if (news_ != before || over()) return Wake::event;
    } else if (connecting && Clock::now() >= patient_until) {
      ++silences_;
      drop();
    }
    if (p[1].revents != 0) return Wake::interrupted;
    if (fd_ < 0) return Wake::event;
    if (Clock::now() >= until) return Wake::nothing;
  }
}

Result<void> Session::connect(Deadline until, int interrupt_fd) {
  const auto unavailable = [this](std::string_view why) {
    return fail(Errc::unavailable, "{}: {}", options_.where, why);
  };
  if (resumed_.id != 0 && !turn_) {
    turn_ = await_turn(resumed_.id, std::min(until, later(Clock::now(), options_.op_timeout)));
    if (!turn_) return unavailable("another process is using this handle");
  }
  listen(Deadline{});  // take the events that have arrived meanwhile, or the end of the connection
  std::optional<Servers> servers;
  while (state() == State::connecting) {
    if (fd_ < 0) {
      if (!servers) servers.emplace(options_.servers, until);
      const auto addresses = servers->answer();
      if (!addresses) {
        if (!servers->wait(interrupt_fd)) return unavailable("interrupted while connecting");
        continue;
      }
      if (!*addresses) return unavailable(addresses->error().message);
      TRY_VOID(set_servers(**addresses));
    }
    const Wake wake = pump(until, interrupt_fd);
    if (state() != State::connecting) break;
    if (wake == Wake::interrupted) return unavailable("interrupted while connecting");
    if (Clock::now() >= until)
      return unavailable(fault_.empty() ? "no server answers"
                                        : fmt::format("no server answers ({})", fault_));
  }
  if (state() == State::denied) return fail(server_error(options_, "connect", ZAUTHFAILED));
  return {};
}

void Session::drop() {
  if (!handle_ || fd_ < 0) return;
  ::shutdown(fd_, SHUT_RDWR);
  // Handle first what the server had already sent, and then the end of the connection.
  const std::uint64_t connection = connection_;
  for (int turns = 0; turns < 1000 && fd_ >= 0 && connection_ == connection; ++turns) {
    const int was = zoo_state(handle_);
    if (zookeeper_process(
            handle_, ZOOKEEPER_READ | (was == ZOO_CONNECTING_STATE ? ZOOKEEPER_WRITE : 0)) != ZOK)
      break;
    if (left()) break;
  }
  if (left()) fd_ = -1;
}

bool Session::finish(std::initializer_list<const Call*> calls, Deadline until) {
  const auto done = [&] {
    return std::ranges::all_of(calls, [](const Call* c) { return c->done(); });
  };
  while (!done()) {
    if (left()) break;
    if (listen(until) == Wake::nothing && !done()) {
      drop();  // then all calls are done, and unknown() is true of their results
      ++silences_;
      return false;
    }
  }
  return done();
}

WatchId Session::new_watch() {
  const WatchId id = next_number();
  watches_[id] = false;
  return id;
}
bool Session::fired(WatchId id) const {
  const auto at = watches_.find(id);
  return at != watches_.end() && at->second;
}
void Session::fire(WatchId id) {
  const auto at = watches_.find(id);
  if (at == watches_.end()) return;
  at->second = true;
  ++news_;
}

}  // namespace dlock::zookeeper
