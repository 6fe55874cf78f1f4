// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/session.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace dlock::zookeeper {

using namespace std::chrono_literals;

struct Session::Call::State {
  Session* session;
  Reply reply;
  bool write = false, done = false, forgotten = false;
  std::vector<zoo_op_result_t> results;  // the library writes here
  std::vector<std::string> op_paths;
  std::vector<struct Stat> op_stats;
};

Session::Call::~Call() {
  if (!state_) return;
  if (state_->done) delete state_;
  else state_->forgotten = true;  // its answer deletes it
}
bool Session::Call::done() const noexcept { return state_ && state_->done; }
const Reply& Session::Call::reply() const noexcept { return state_->reply; }

std::string Ticket::text() const {
  std::string out = fmt::format("{:016x}", static_cast<std::uint64_t>(id));
  for (const char c : password) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::optional<Ticket> Ticket::parse(std::string_view text) {
  Ticket t;
  std::uint64_t id = 0;
  if (text.size() != 48) return std::nullopt;
  const auto hex = [&](std::size_t at, std::size_t size, auto& value) {
    const char* begin = text.data() + at;
    const auto [end, error] = std::from_chars(begin, begin + size, value, 16);
    return error == std::errc{} && end == begin + size;
  };
  if (!hex(0, 16, id)) return std::nullopt;
  for (std::size_t i = 16; i < 48; i += 2) {
    unsigned char byte = 0;
    if (!hex(i, 2, byte)) return std::nullopt;
    t.password += static_cast<char>(byte);
  }
  t.id = static_cast<std::int64_t>(id);
  return t;
}

bool unknown(int rc) noexcept {
  return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZCLOSING || rc == ZINVALIDSTATE || rc == ZSESSIONEXPIRED ||
         rc == ZSESSIONMOVED || rc == ZRUNTIMEINCONSISTENCY || rc == ZMARSHALLINGERROR;
}

Error server_error(const Options& o, std::string_view operation, int rc) {
  const auto error = [&](Errc code, std::string_view what) {
    return Error{code, fmt::format("{} at {}: {}", operation, o.where, what)};
  };
  switch (rc) {
    case ZNOAUTH: return error(Errc::denied, "the node's ACL does not allow it");
    case ZAUTHFAILED: return error(Errc::denied, "the server does not accept the credential");
    case ZINVALIDACL: return error(Errc::denied, "the server does not know the credential that new nodes are to belong to");
    case ZEPHEMERALONLOCALSESSION: return error(Errc::unavailable, "the server gives local sessions, which cannot keep locks");
    case ZNOTREADONLY: return error(Errc::unavailable, "the server is cut off from its ensemble and only reads");
    case -125: return error(Errc::cannot_create, "a quota is used up");  // ZQUOTAEXCEEDED, not in every header
    case ZNOCHILDRENFOREPHEMERALS: return error(Errc::cannot_create, "a node on the way is another client's ephemeral one");
    default: break;
  }
  if (unknown(rc)) return error(Errc::timed_out, "the connection broke before the answer came");
  return error(Errc::protocol, fmt::format("the server answers {} ({})", zerror(rc), rc));
}

// The library's callbacks, all called from within listen(), drop() or the destructor.
struct Session::Callbacks {
  static Call::State* finish(const void* data, int rc) {
    auto* s = static_cast<Call::State*>(const_cast<void*>(data));
    s->reply.rc = rc;
    s->done = true;
    ++s->session->news_;
    if (!unknown(rc)) s->session->proof_.heard(s->reply.sent);
    if (rc == ZOK && s->write) s->session->proof_.committed(s->reply.sent);
    return s;
  }
  static void leave(Call::State* s) {
    if (s->forgotten) delete s;
  }
  static NodeStat copy(const struct Stat& s) { return {s.czxid, s.ephemeralOwner, s.version}; }

  static void nothing(int rc, const void* data) {
    auto* s = finish(data, rc);
    for (const auto& r : s->results) s->reply.results.push_back(r.err);
    leave(s);
  }
  static void created(int rc, const char* path, const struct Stat* stat, const void* data) {
    auto* s = finish(data, rc);
    if (rc == ZOK && path) s->reply.text = path;
    if (rc == ZOK && stat) s->reply.stat = copy(*stat);
    leave(s);
  }
  static void listed(int rc, const String_vector* names, const void* data) {
    auto* s = finish(data, rc);
    if (rc == ZOK && names) s->reply.names.assign(names->data, names->data + names->count);
    leave(s);
  }
  static void read(int rc, const char* value, int length, const struct Stat* stat, const void* data) {
    auto* s = finish(data, rc);
    if (rc == ZOK && value && length > 0) s->reply.text.assign(value, static_cast<std::size_t>(length));
    if (rc == ZOK && stat) s->reply.stat = copy(*stat);
    leave(s);
  }
  static void looked(int rc, const struct Stat* stat, const void* data) {
    auto* s = finish(data, rc);
    if (rc == ZOK && stat) s->reply.stat = copy(*stat);
    leave(s);
  }
  static void text(int rc, const char*, const void* data) { leave(finish(data, rc)); }
  static void acl(int rc, ACL_vector* acl, struct Stat*, const void* data) {
    auto* s = finish(data, rc);
    for (int i = 0; rc == ZOK && acl && i < acl->count; ++i)
      s->reply.names.push_back(fmt::format("{}:{} {}", acl->data[i].id.scheme, acl->data[i].id.id, acl->data[i].perms));
    leave(s);
  }
  static void session(zhandle_t*, int type, int state, const char*, void* context) {
    if (type == ZOO_SESSION_EVENT) static_cast<Session*>(context)->on_state(state);
  }
  // The context is a number: the library may call long after whoever set the watch is gone.
  static void node(zhandle_t* handle, int type, int, const char*, void* context) {
    if (type == ZOO_SESSION_EVENT) return;
    auto* self = static_cast<Session*>(const_cast<void*>(zoo_get_context(handle)));
    const auto at = self->watches_.find(reinterpret_cast<WatchId>(context));
    if (at == self->watches_.end()) return;
    at->second = true;
    ++self->news_;
  }
};

namespace {

// One process at a time on a session: two would throw each other off for ever. An abstract name is free again when its process ends, however it does. (Processes
// on other machines are not held off; they meet the same error as everybody whose connection breaks.)
Fd take_turn(std::int64_t session, Deadline until) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = fmt::format("dlock-zookeeper-{:016x}", static_cast<std::uint64_t>(session));
  text.copy(name.sun_path + 1, sizeof name.sun_path - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  for (;;) {
    Fd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (fd && ::bind(fd.get(), reinterpret_cast<sockaddr*>(&name), size) == 0) return fd;
    if (Clock::now() >= until) return Fd{};
    ::poll(nullptr, 0, 2);
  }
}

timespec until_then(Deadline t) {
  const auto left = std::max<Clock::duration>(t - Clock::now(), 0ns);
  return {left / 1s, (left % 1s).count()};
}

}  // namespace

Session::Session(const Options& o, Duration timeout, std::optional<Ticket> ticket, std::uint64_t connections)
    : options_(o), asked_(timeout), proof_(o.tick), connections_(connections) {
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
  handle_ = zookeeper_init(o.servers.c_str(), Callbacks::session, static_cast<int>(std::min<std::int64_t>(ms, INT32_MAX)),
                           ticket ? &id : nullptr, this, 0);
  if (!handle_) {
    init_error_ = errno == 0 ? EHOSTUNREACH : errno;
    return;
  }
  zoo_set_servers_resolution_delay(handle_,
                                   -1);  // names are resolved when a connection is lost, not whenever a socket is looked at
  if (const std::size_t colon = o.auth.find(':'); colon != o.auth.npos) {
    const std::string credential = o.auth.substr(colon + 1);
    zoo_add_auth(handle_, o.auth.substr(0, colon).c_str(), credential.data(), static_cast<int>(credential.size()), nullptr,
                 nullptr);
  }
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
Duration Session::timeout() const { return std::chrono::milliseconds{handle_ ? zoo_recv_timeout(handle_) : 0}; }

void Session::on_state(int state) {
  ++news_;
  if (state != ZOO_CONNECTED_STATE) return;
  ++connections_;
  proof_.attached(attempt_at_, timeout());
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

// Only a connected socket: one that fails to connect would ring for ever.
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
    if (news_ != before || state() == State::expired || state() == State::denied) return Heard::something;
    Deadline wake =
        std::min<Deadline>(until, Clock::now() + std::chrono::seconds{tv.tv_sec} + std::chrono::microseconds{tv.tv_usec});
    // A server that says nothing is left for the next one sooner than the library would, which gives it two thirds of the timeout.
    const Duration patience = std::max<Duration>(100ms, std::min<Duration>(asked_ / 10, options_.connect_timeout));
    const bool connecting = fd >= 0 && state() != State::connected;
    if (connecting) wake = std::min<Deadline>(wake, attempt_at_ + patience);
    short events = 0;
    if (interest & ZOOKEEPER_READ) events |= POLLIN;
    if (interest & ZOOKEEPER_WRITE) events |= POLLOUT;
    pollfd p[] = {{fd, events, 0}, {interrupt_fd, POLLIN, 0}};
    const timespec left = until_then(wake);
    ::ppoll(p, 2, &left, nullptr);
    if (fd >= 0 && p[0].revents != 0) {
      const int ready = ((p[0].revents & (POLLIN | POLLHUP | POLLERR)) ? interest & ZOOKEEPER_READ : 0) |
                        ((p[0].revents & (POLLOUT | POLLHUP | POLLERR)) ? interest & ZOOKEEPER_WRITE : 0);
      zookeeper_process(handle_, ready);
      if (zoo_state(handle_) == 0) fd_ = -1;
      if (news_ != before || state() == State::expired || state() == State::denied) return Heard::something;
    } else if (connecting && Clock::now() >= attempt_at_ + patience) {
      drop();
    }
    if (p[1].revents != 0) return Heard::interrupted;
    if (Clock::now() >= until) return Heard::nothing;
  }
}

Result<void> Session::connect(Deadline until, int interrupt_fd) {
  if (!handle_)
    return fail(Errc::unavailable, init_error_ == EBUSY ? fmt::format("{}: another process is using this handle", options_.where)
                                                        : fmt::format("{}: the servers' names cannot be resolved ({})",
                                                                      options_.where, ::strerrordesc_np(init_error_)));
  listen(Deadline{});  // what has come meanwhile: events, or the end of the connection
  while (state() == State::connecting) {
    const Heard heard = listen(until, interrupt_fd);
    if (state() != State::connecting) break;
    if (heard == Heard::interrupted)
      return fail(Errc::unavailable, fmt::format("{}: interrupted while connecting", options_.where));
    if (Clock::now() >= until) return fail(Errc::unavailable, fmt::format("{}: no server of it answers", options_.where));
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
    if (zookeeper_process(handle_, ZOOKEEPER_READ | (was == ZOO_CONNECTING_STATE ? ZOOKEEPER_WRITE : 0)) != ZOK) break;
    if (zoo_state(handle_) == 0) break;
  }
  fd_ = -1;
}

bool Session::finish(std::initializer_list<const Call*> calls, Deadline until) {
  const auto done = [&] { return std::all_of(calls.begin(), calls.end(), [](const Call* c) { return c->done(); }); };
  while (!done()) {
    if (state() == State::expired || state() == State::denied) break;
    if (listen(until) == Heard::nothing && !done()) {
      drop();  // this answers them all, with "unknown"
      return false;
    }
  }
  return done();
}

// ---- requests ------------------------------------------------------------------------------------------------------------

Session::Call::State* Session::begin(bool write) {
  ++requests;
  auto* s = new Call::State{.session = this, .reply = {}, .results = {}, .op_paths = {}, .op_stats = {}};
  s->write = write;
  s->reply.sent = Clock::now();
  return s;
}

Session::Call Session::begun(Call::State* s, int rc) {
  if (rc != ZOK) {
    s->reply.rc = rc;
    s->done = true;
  }
  return Call{s};
}

namespace {
watcher_fn watcher(WatchId id, watcher_fn fn) { return id == 0 ? nullptr : fn; }
void* context(WatchId id) { return reinterpret_cast<void*>(id); }
const ACL_vector& acl_of(const Options& o) { return o.auth.empty() ? ZOO_OPEN_ACL_UNSAFE : ZOO_CREATOR_ALL_ACL; }
}  // namespace

Session::Call Session::create(const std::string& path, const std::string& data, int flags) {
  auto* s = begin(true);
  return begun(s, zoo_acreate2(handle_, path.c_str(), data.data(), static_cast<int>(data.size()), &acl_of(options_), flags,
                               Callbacks::created, s));
}
Session::Call Session::children(const std::string& path, WatchId w) {
  auto* s = begin(false);
  return begun(s, zoo_awget_children(handle_, path.c_str(), watcher(w, Callbacks::node), context(w), Callbacks::listed, s));
}
Session::Call Session::get(const std::string& path, WatchId w) {
  auto* s = begin(false);
  return begun(s, zoo_awget(handle_, path.c_str(), watcher(w, Callbacks::node), context(w), Callbacks::read, s));
}
Session::Call Session::exists(const std::string& path, WatchId w) {
  auto* s = begin(false);
  return begun(s, zoo_awexists(handle_, path.c_str(), watcher(w, Callbacks::node), context(w), Callbacks::looked, s));
}
Session::Call Session::remove(const std::string& path) {
  auto* s = begin(true);
  return begun(s, zoo_adelete(handle_, path.c_str(), -1, Callbacks::nothing, s));
}
Session::Call Session::set(const std::string& path, const std::string& data) {
  auto* s = begin(true);
  return begun(s, zoo_aset(handle_, path.c_str(), data.data(), static_cast<int>(data.size()), -1, Callbacks::looked, s));
}
Session::Call Session::sync(const std::string& path) {
  auto* s = begin(false);
  return begun(s, zoo_async(handle_, path.c_str(), Callbacks::text, s));
}
Session::Call Session::acl(const std::string& path) {
  auto* s = begin(false);
  return begun(s, zoo_aget_acl(handle_, path.c_str(), Callbacks::acl, s));
}

Session::Call Session::multi(std::vector<Op> ops) {
  auto* s = begin(true);
  std::vector<zoo_op_t> list(ops.size());
  s->results.resize(ops.size());
  s->op_paths.resize(ops.size());
  s->op_stats.resize(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    const auto size = static_cast<int>(op.data.size());
    switch (op.kind) {
      case Op::Kind::check: zoo_check_op_init(&list[i], op.path.c_str(), op.version); break;
      case Op::Kind::create:
        s->op_paths[i].resize(op.path.size() + 16);
        zoo_create_op_init(&list[i], op.path.c_str(), op.data.data(), size, &acl_of(options_), op.flags, s->op_paths[i].data(),
                           static_cast<int>(s->op_paths[i].size()));
        break;
      case Op::Kind::set: zoo_set_op_init(&list[i], op.path.c_str(), op.data.data(), size, op.version, &s->op_stats[i]); break;
      case Op::Kind::remove: zoo_delete_op_init(&list[i], op.path.c_str(), op.version); break;
    }
  }
  return begun(s, zoo_amulti(handle_, static_cast<int>(list.size()), list.data(), s->results.data(), Callbacks::nothing, s));
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
