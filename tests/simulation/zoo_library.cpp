// SPDX-License-Identifier: Apache-2.0
// The functions of ZooKeeper's C client that dlock calls, in place of the library: single-threaded,
// above the simulated system calls, in frames that ensemble.cpp understands. As in the library
// nothing happens outside of zookeeper_interest() and zookeeper_process(), replies come in the
// order of the requests, and a connection that ends answers all of them with ZCONNECTIONLOSS.
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>
#include "core/number.hpp"
#include "simulation/ensemble.hpp"
#include "simulation/process.hpp"

using namespace dlock::simulation;

namespace {

Process& caller() { return *World::current()->active; }

std::int64_t number(const std::string& text) {
  if (text.starts_with('-')) return -number(text.substr(1));
  return dlock::parse_number<std::int64_t>(text).value_or(0);
}

// czxid, owner, version
Stat stat_at(const Fields& f, std::size_t at) {
  Stat s{};
  if (f.size() < at + 3) return s;
  s.czxid = number(f[at]);
  s.ephemeralOwner = number(f[at + 1]);
  s.version = static_cast<std::int32_t>(number(f[at + 2]));
  return s;
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the library's names
struct _zhandle {
  using Complete = std::function<void(int rc, const Fields&)>;
  struct Watch {
    std::string what;  // as of Ensemble::Session::watches
    watcher_fn fn;
    void* context;
  };
  watcher_fn watcher;
  void* context;
  Nanos timeout;
  clientid_t id{};
  int state = 0, fd = -1;
  Nanos sent_at = 0, heard_at = 0;
  std::string inbox;
  std::int64_t xid = 0;
  std::deque<std::pair<std::string, Complete>> open;  // requests: xid
  std::vector<Watch> watches;

  void says(int new_state) {
    state = new_state;
    watcher(this, ZOO_SESSION_EVENT, new_state, "", context);
  }
  void answer_all(int rc) {
    for (auto& [number, complete] : std::exchange(open, {})) complete(rc, {});
  }
  int lose(int rc) {
    if (fd >= 0) caller().close(std::exchange(fd, -1));
    inbox.clear();
    state = 0;
    answer_all(ZCONNECTIONLOSS);
    watcher(this, ZOO_SESSION_EVENT, ZOO_CONNECTING_STATE, "", context);
    return rc;
  }
  bool send(const Fields& f) {
    const std::string bytes = frame(f);
    sent_at = caller().clock();
    return caller().send(fd, bytes.data(), bytes.size()) >= 0;
  }
  int request(Fields f, Complete complete) {
    if (state == ZOO_EXPIRED_SESSION_STATE) return ZSESSIONEXPIRED;
    if (state != ZOO_CONNECTED_STATE) return ZCONNECTIONLOSS;
    const std::string number = std::to_string(++xid);
    f.insert(f.begin() + 1, number);
    open.emplace_back(number, std::move(complete));
    // Refused: the end of the connection will be seen, and answers this one, too.
    (void)send(f);
    return ZOK;
  }
  void watch(std::string what, watcher_fn fn, void* with) {
    if (fn) watches.push_back({std::move(what), fn, with});
  }
  void fire(const std::string& what) {
    std::vector<Watch> fired;
    for (const Watch& w : watches)
      if (what.empty() || w.what == what) fired.push_back(w);
    std::erase_if(watches, [&](const Watch& w) { return what.empty() || w.what == what; });
    for (const Watch& w : fired)
      w.fn(this, ZOO_CHANGED_EVENT, state, w.what.c_str() + 1, w.context);
  }
  void hear(const Fields& f) {
    if (f[0] == "connected") {
      id.client_id = number(f[1]);
      if (id.client_id == 0) {
        answer_all(ZSESSIONEXPIRED);
        caller().close(std::exchange(fd, -1));
        return says(ZOO_EXPIRED_SESSION_STATE);
      }
      timeout = number(f[2]) * millisecond;
      says(ZOO_CONNECTED_STATE);
      // The library sets its watches again; here each of them fires, which may always happen.
      fire("");
    } else if (f[0] == "event") {
      fire(f[1]);
    } else if (f[0] == "reply" && !open.empty() && open.front().first == f[1]) {
      const Complete complete = std::move(open.front().second);
      open.pop_front();
      complete(static_cast<int>(number(f[2])), f);
    }
  }
};

extern "C" {

const int ZOO_EPHEMERAL = 1, ZOO_PERSISTENT = 0, ZOO_EPHEMERAL_SEQUENTIAL = 3, ZOO_CONTAINER = 4;
const int ZOO_EXPIRED_SESSION_STATE = -112, ZOO_AUTH_FAILED_STATE = -113, ZOO_CONNECTING_STATE = 1,
          ZOO_ASSOCIATING_STATE = 2, ZOO_CONNECTED_STATE = 3;
const int ZOO_SESSION_EVENT = -1, ZOO_CHANGED_EVENT = 3;
const int ZOOKEEPER_WRITE = 1, ZOOKEEPER_READ = 2;
ACL_vector ZOO_OPEN_ACL_UNSAFE{}, ZOO_CREATOR_ALL_ACL{};

void zoo_set_debug_level(ZooLogLevel) {}
int zoo_set_servers(zhandle_t*, const char*) { return ZOK; }
int zoo_set_servers_resolution_delay(zhandle_t*, int) { return ZOK; }
int zoo_add_auth(zhandle_t*, const char*, const char*, int, void_completion_t, const void*) {
  return ZOK;
}
const char* zoo_get_current_server(zhandle_t*) { return "server"; }
const char* zerror(int) { return "an error"; }

zhandle_t* zookeeper_init(const char*, watcher_fn watcher, int timeout, const clientid_t* id,
                          void* context, int) {
  auto* z = new _zhandle{.watcher = watcher, .context = context, .timeout = timeout * millisecond};
  if (id) z->id = *id;
  return z;
}

int zookeeper_close(zhandle_t* z) {
  if (z->state == ZOO_CONNECTED_STATE) (void)z->send({"close"});
  if (z->fd >= 0) caller().close(std::exchange(z->fd, -1));
  z->state = 0;
  z->answer_all(ZCLOSING);
  delete z;
  return ZOK;
}

int zoo_state(zhandle_t* z) { return z->state; }
const clientid_t* zoo_client_id(zhandle_t* z) { return &z->id; }
int zoo_recv_timeout(zhandle_t* z) { return static_cast<int>(z->timeout / millisecond); }
const void* zoo_get_context(zhandle_t* z) { return z->context; }

int zookeeper_interest(zhandle_t* z, int* fd, int* interest, timeval* tv) {
  if (z->state == ZOO_EXPIRED_SESSION_STATE) return ZSESSIONEXPIRED;
  const Nanos now = caller().clock();
  if (z->fd < 0) {
    z->fd = caller().new_socket();
    z->state = ZOO_CONNECTING_STATE;
    z->heard_at = z->sent_at = now;
    if (caller().connect(z->fd) != -EINPROGRESS) return z->lose(ZCONNECTIONLOSS);
  }
  Nanos wait = z->timeout / 3;
  if (z->state == ZOO_CONNECTED_STATE || z->state == ZOO_ASSOCIATING_STATE) {
    const Nanos patience = z->heard_at + z->timeout / 3 * 2 - now;
    if (patience <= 0) return z->lose(ZOPERATIONTIMEOUT);
    if (z->state == ZOO_CONNECTED_STATE && now - z->sent_at >= z->timeout / 3)
      (void)z->send({"ping"});
    wait = std::min(patience, z->timeout / 3 - (now - z->sent_at));
  }
  *fd = z->fd;
  *interest = ZOOKEEPER_READ | (z->state == ZOO_CONNECTING_STATE ? ZOOKEEPER_WRITE : 0);
  wait = std::max<Nanos>(wait, 0);
  *tv = {wait / second, wait % second / 1000};
  return ZOK;
}

int zookeeper_process(zhandle_t* z, int events) {
  if (z->fd < 0) return z->state == ZOO_EXPIRED_SESSION_STATE ? ZSESSIONEXPIRED : ZINVALIDSTATE;
  if (z->state == ZOO_CONNECTING_STATE) {
    if ((events & ZOOKEEPER_WRITE) == 0) return ZOK;
    if (caller().socket_error(z->fd) != 0) return z->lose(ZCONNECTIONLOSS);
    z->state = ZOO_ASSOCIATING_STATE;
    if (!z->send(
            {"connect", std::to_string(z->timeout / millisecond), std::to_string(z->id.client_id)}))
      return z->lose(ZCONNECTIONLOSS);
    return ZOK;
  }
  char buffer[4096];
  const long n = caller().receive(z->fd, buffer, sizeof buffer);
  if (n == -EAGAIN) return ZNOTHING;
  if (n <= 0) return z->lose(ZCONNECTIONLOSS);
  z->heard_at = caller().clock();
  z->inbox.append(buffer, static_cast<std::size_t>(n));
  for (Fields f = take_frame(z->inbox); !f.empty() && z->fd >= 0; f = take_frame(z->inbox))
    z->hear(f);
  return ZOK;
}

int zoo_acreate2(zhandle_t* z, const char* path, const char* value, int size, const ACL_vector*,
                 int flags, string_stat_completion_t done, const void* data) {
  return z->request(
      {"create", path, std::string(value, static_cast<std::size_t>(std::max(size, 0))),
       std::to_string(flags)},
      [=](int rc, const Fields& f) {
        const Stat s = stat_at(f, 4);
        done(rc, rc == ZOK ? f[3].c_str() : nullptr, &s, data);
      });
}

int zoo_awget_children2(zhandle_t* z, const char* path, watcher_fn watcher, void* context,
                        strings_stat_completion_t done, const void* data) {
  return z->request({"children", path, watcher ? "1" : "0"},
                    [=, what = std::string{"c"} + path](int rc, const Fields& f) {
                      std::vector<char*> names;
                      for (std::size_t i = 6; i < f.size(); ++i)
                        names.push_back(const_cast<char*>(f[i].c_str()));
                      const String_vector v{static_cast<std::int32_t>(names.size()), names.data()};
                      const Stat s = stat_at(f, 3);
                      if (rc == ZOK) z->watch(what, watcher, context);
                      done(rc, &v, &s, data);
                    });
}

int zoo_awget(zhandle_t* z, const char* path, watcher_fn watcher, void* context,
              data_completion_t done, const void* data) {
  return z->request({"get", path, watcher ? "1" : "0"},
                    [=, what = std::string{"d"} + path](int rc, const Fields& f) {
                      const Stat s = stat_at(f, 4);
                      if (rc == ZOK) z->watch(what, watcher, context);
                      if (rc == ZOK) done(rc, f[3].data(), static_cast<int>(f[3].size()), &s, data);
                      else done(rc, nullptr, 0, &s, data);
                    });
}

int zoo_awexists(zhandle_t* z, const char* path, watcher_fn watcher, void* context,
                 stat_completion_t done, const void* data) {
  return z->request({"exists", path, watcher ? "1" : "0"},
                    [=, what = std::string{"d"} + path](int rc, const Fields& f) {
                      const Stat s = stat_at(f, 4);
                      if (rc == ZOK || rc == ZNONODE) z->watch(what, watcher, context);
                      done(rc, &s, data);
                    });
}

int zoo_adelete(zhandle_t* z, const char* path, int version, void_completion_t done,
                const void* data) {
  return z->request({"delete", path, std::to_string(version)},
                    [=](int rc, const Fields&) { done(rc, data); });
}

int zoo_aset(zhandle_t* z, const char* path, const char* value, int size, int version,
             stat_completion_t done, const void* data) {
  return z->request({"set", path, std::string(value, static_cast<std::size_t>(std::max(size, 0))),
                     std::to_string(version)},
                    [=](int rc, const Fields& f) {
                      const Stat s = stat_at(f, 3);
                      done(rc, &s, data);
                    });
}

int zoo_async(zhandle_t* z, const char* path, string_completion_t done, const void* data) {
  return z->request({"sync", path}, [=](int rc, const Fields&) { done(rc, nullptr, data); });
}

int zoo_aget_acl(zhandle_t*, const char*, acl_completion_t, const void*) { return ZUNIMPLEMENTED; }

void zoo_create_op_init(zoo_op_t* op, const char* path, const char* value, int size,
                        const ACL_vector* acl, int flags, char* buffer, int buffer_size) {
  op->type = ZOO_CREATE_OP;
  op->create_op = {path, value, size, buffer, buffer_size, acl, flags, 0};
}
void zoo_delete_op_init(zoo_op_t* op, const char* path, int version) {
  op->type = ZOO_DELETE_OP;
  op->delete_op = {path, version};
}
void zoo_set_op_init(zoo_op_t* op, const char* path, const char* value, int size, int version,
                     Stat* stat) {
  op->type = ZOO_SETDATA_OP;
  op->set_op = {path, value, size, version, stat};
}
void zoo_check_op_init(zoo_op_t* op, const char* path, int version) {
  op->type = ZOO_CHECK_OP;
  op->check_op = {path, version};
}

int zoo_amulti(zhandle_t* z, int count, const zoo_op_t* ops, zoo_op_result_t* results,
               void_completion_t done, const void* data) {
  Fields request{"multi"};
  for (int i = 0; i < count; ++i) {
    const zoo_op_t& op = ops[i];
    const auto text = [](const char* value, int size) {
      return std::string(value ? value : "", static_cast<std::size_t>(std::max(size, 0)));
    };
    if (op.type == ZOO_CREATE_OP)
      request.insert(request.end(),
                     {"create", op.create_op.path, text(op.create_op.data, op.create_op.datalen),
                      "-1", std::to_string(op.create_op.flags)});
    else if (op.type == ZOO_DELETE_OP)
      request.insert(request.end(),
                     {"delete", op.delete_op.path, "", std::to_string(op.delete_op.version), "0"});
    else if (op.type == ZOO_SETDATA_OP)
      request.insert(request.end(), {"set", op.set_op.path, text(op.set_op.data, op.set_op.datalen),
                                     std::to_string(op.set_op.version), "0"});
    else
      request.insert(request.end(),
                     {"check", op.check_op.path, "", std::to_string(op.check_op.version), "0"});
  }
  return z->request(std::move(request), [=](int rc, const Fields& f) {
    for (int i = 0; i < count; ++i) {
      const std::size_t at = 3 + 2 * static_cast<std::size_t>(i);
      results[i] = {};
      results[i].err = at < f.size() ? static_cast<int>(number(f[at])) : rc;
    }
    done(rc, data);
  });
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
