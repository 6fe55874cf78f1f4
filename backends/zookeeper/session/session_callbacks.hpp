// SPDX-License-Identifier: Apache-2.0
// Between the library and a Session: an outstanding request, and the callbacks for its reply.
#pragma once
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include <string>
#include <vector>
#include "zookeeper/session/session.hpp"

namespace dlock::zookeeper {

struct Session::Call::State {
  Session* session;
  Reply reply;
  bool write = false, done = false, forgotten = false;
  std::vector<zoo_op_result_t> results;  // the library writes here
  std::vector<std::string> op_paths;
  std::vector<struct Stat> op_stats;
};

// The library's callbacks, all called from within listen(), drop() or the destructor.
struct Session::Callbacks {
  static Call::State* finish(const void* data, int rc) {
    auto* s = static_cast<Call::State*>(const_cast<void*>(data));
    s->reply.rc = rc;
    s->done = true;
    ++s->session->news_;
    const Deadline now = Clock::now();
    if (rc == ZOK && s->write) s->session->proof_.committed(s->reply.sent, now);
    else if (!unknown(rc)) s->session->proof_.heard(s->reply.sent, now);
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
  static void read(int rc, const char* value, int length, const struct Stat* stat,
                   const void* data) {
    auto* s = finish(data, rc);
    if (rc == ZOK && value && length > 0)
      s->reply.text.assign(value, static_cast<std::size_t>(length));
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
      s->reply.names.push_back(
          fmt::format("{}:{} {}", acl->data[i].id.scheme, acl->data[i].id.id, acl->data[i].perms));
    leave(s);
  }
  static void session(zhandle_t*, int type, int state, const char*, void* context) {
    if (type == ZOO_SESSION_EVENT) static_cast<Session*>(context)->on_state(state);
  }
  // The context is a number: the library may call long after the owner of the watch is gone.
  static void node(zhandle_t* handle, int type, int, const char*, void* context) {
    if (type == ZOO_SESSION_EVENT) return;
    auto* self = static_cast<Session*>(const_cast<void*>(zoo_get_context(handle)));
    const auto at = self->watches_.find(reinterpret_cast<WatchId>(context));
    if (at == self->watches_.end()) return;
    at->second = true;
    ++self->news_;
  }
};

}  // namespace dlock::zookeeper
