// SPDX-License-Identifier: Apache-2.0
// The requests of a Session, and the library's callbacks for their replies.
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include "zookeeper/session/session.hpp"

namespace dlock::zookeeper {

struct Session::Call::State {
  Session* session;
  Reply reply{};
  bool write = false, done = false, forgotten = false;
  std::vector<zoo_op_result_t> results{};  // the library writes here
  std::vector<std::string> op_paths{};
  std::vector<struct Stat> op_stats{};
};

Session::Call::~Call() {
  if (!state_) return;
  if (state_->done) delete state_;
  else state_->forgotten = true;  // the reply will delete it
}
bool Session::Call::done() const noexcept { return !state_ || state_->done; }
const Reply& Session::Call::reply() const noexcept { return state_->reply; }

// The library calls all of these, from within pump(), drop() or the destructor.
struct Session::Callbacks {
  template <class Keep>
  static void answered(const void* data, int rc, Keep keep) {
    auto* s = static_cast<Call::State*>(const_cast<void*>(data));
    s->reply.rc = rc;
    s->done = true;
    ++s->session->news_;
    const Deadline now = Clock::now();
    if (rc == ZOK && s->write) s->session->proof_.committed(s->reply.sent, now);
    else if (!unknown(rc)) s->session->proof_.note_answer(s->reply.sent, now);
    if (rc == ZOK) keep(s->reply);
    if (rc == ZOK && s->write && s->reply.stat.mtime > 0) {
      s->session->written_ = s->reply.stat.mtime;
      s->session->written_at_ = now;
    }
    if (s->forgotten) delete s;
  }
  static NodeStat copy(const struct Stat* s) {
    return s ? NodeStat{s->czxid, s->ephemeralOwner, s->version, s->mtime, s->cversion}
             : NodeStat{};
  }

  static void nothing(int rc, const void* data) {
    answered(data, rc, [](Reply&) {});
  }
  static void created(int rc, const char* path, const struct Stat* stat, const void* data) {
    answered(data, rc, [&](Reply& r) {
      if (path) r.text = path;
      r.stat = copy(stat);
    });
  }
  static void listed(int rc, const String_vector* names, const struct Stat* stat,
                     const void* data) {
    answered(data, rc, [&](Reply& r) {
      if (names) r.names.assign(names->data, names->data + names->count);
      r.stat = copy(stat);
    });
  }
  static void read(int rc, const char* value, int length, const struct Stat* stat,
                   const void* data) {
    answered(data, rc, [&](Reply& r) {
      if (value && length > 0) r.text.assign(value, static_cast<std::size_t>(length));
      r.stat = copy(stat);
    });
  }
  static void stat(int rc, const struct Stat* stat, const void* data) {
    answered(data, rc, [&](Reply& r) { r.stat = copy(stat); });
  }
  static void text(int rc, const char*, const void* data) { nothing(rc, data); }
  static void acl(int rc, ACL_vector* acl, struct Stat*, const void* data) {
    answered(data, rc, [&](Reply& r) {
      for (int i = 0; acl && i < acl->count; ++i)
        r.names.push_back(fmt::format("{}:{} {}", acl->data[i].id.scheme, acl->data[i].id.id,
                                      acl->data[i].perms));
    });
  }
  // The context is a number, because the library may call this when the watch's owner is gone.
  static void node(zhandle_t* handle, int type, int, const char*, void* context) {
    if (type == ZOO_SESSION_EVENT) return;
    auto* self = static_cast<Session*>(const_cast<void*>(zoo_get_context(handle)));
    self->fire(reinterpret_cast<WatchId>(context));
  }
};

namespace {

void* context(WatchId id) { return reinterpret_cast<void*>(id); }
const ACL_vector& acl_of(const Options& o) {
  return o.auth.empty() ? ZOO_OPEN_ACL_UNSAFE : ZOO_CREATOR_ALL_ACL;
}
int size_of(const std::string& data) { return static_cast<int>(data.size()); }

}  // namespace

// Sends nothing without a connection, because the library would keep the request for the next
// connection.
template <class Request>
Session::Call Session::send(bool write, Request request) {
  ++requests;
  auto* s = new Call::State{.session = this, .write = write};
  s->reply.sent = Clock::now();
  const int rc = state() == State::connected ? request(s) : ZCONNECTIONLOSS;
  if (rc != ZOK) {
    s->reply.rc = rc;
    s->done = true;
  }
  return Call{s};
}

Session::Call Session::create(const std::string& path, const std::string& data, int flags) {
  return send(true, [&](Call::State* s) {
    return zoo_acreate2(handle_, path.c_str(), data.data(), size_of(data), &acl_of(options_), flags,
                        Callbacks::created, s);
  });
}
Session::Call Session::children(const std::string& path, WatchId w) {
  return send(false, [&](Call::State* s) {
    return zoo_awget_children2(handle_, path.c_str(), w == 0 ? nullptr : Callbacks::node,
                               context(w), Callbacks::listed, s);
  });
}
Session::Call Session::get(const std::string& path, WatchId w) {
  return send(false, [&](Call::State* s) {
    return zoo_awget(handle_, path.c_str(), w == 0 ? nullptr : Callbacks::node, context(w),
                     Callbacks::read, s);
  });
}
Session::Call Session::exists(const std::string& path) {
  return send(false, [&](Call::State* s) {
    return zoo_awexists(handle_, path.c_str(), nullptr, nullptr, Callbacks::stat, s);
  });
}
Session::Call Session::remove(const std::string& path) {
  return send(true, [&](Call::State* s) {
    return zoo_adelete(handle_, path.c_str(), -1, Callbacks::nothing, s);
  });
}
Session::Call Session::set(const std::string& path, const std::string& data) {
  return send(true, [&](Call::State* s) {
    return zoo_aset(handle_, path.c_str(), data.data(), size_of(data), -1, Callbacks::stat, s);
  });
}
Session::Call Session::sync(const std::string& path) {
  return send(false,
              [&](Call::State* s) { return zoo_async(handle_, path.c_str(), Callbacks::text, s); });
}
Session::Call Session::acl(const std::string& path) {
  return send(false, [&](Call::State* s) {
    return zoo_aget_acl(handle_, path.c_str(), Callbacks::acl, s);
  });
}

Session::Call Session::multi(const std::vector<Op>& ops) {
  return send(true, [&](Call::State* s) {
    std::vector<zoo_op_t> list(ops.size());
    s->results.resize(ops.size());
    s->op_paths.resize(ops.size());
    s->op_stats.resize(ops.size());
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      switch (op.kind) {
        case Op::Kind::check: zoo_check_op_init(&list[i], op.path.c_str(), op.version); break;
        case Op::Kind::create:
          s->op_paths[i].resize(op.path.size() + 16);
          zoo_create_op_init(&list[i], op.path.c_str(), op.data.data(), size_of(op.data),
                             &acl_of(options_), op.flags, s->op_paths[i].data(),
                             static_cast<int>(s->op_paths[i].size()));
          break;
        case Op::Kind::set:
          zoo_set_op_init(&list[i], op.path.c_str(), op.data.data(), size_of(op.data), op.version,
                          &s->op_stats[i]);
          break;
        case Op::Kind::remove: zoo_delete_op_init(&list[i], op.path.c_str(), op.version); break;
      }
    }
    return zoo_amulti(handle_, static_cast<int>(list.size()), list.data(), s->results.data(),
                      Callbacks::nothing, s);
  });
}

std::optional<std::int64_t> Session::leader_time() const {
  // After a longer time, somebody may have set the leader's clock, or another leader may lead.
  constexpr Duration longest{60'000'000};
  const Duration since = std::chrono::duration_cast<Duration>(Clock::now() - written_at_);
  if (written_ == 0 || since > longest) return std::nullopt;
  return written_ * 1000 + since.count();
}

bool unknown(int rc) noexcept {
  return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZCLOSING ||
         rc == ZINVALIDSTATE || rc == ZSESSIONEXPIRED || rc == ZSESSIONMOVED ||
         rc == ZRUNTIMEINCONSISTENCY || rc == ZMARSHALLINGERROR;
}

Error server_error(const Options& o, std::string_view operation, int rc) {
  constexpr int quota_exceeded = -125;  // ZQUOTAEXCEEDED, which older headers lack
  // Servers may know other schemes, but most users mean digest.
  const std::string_view form =
      o.auth.starts_with("digest:") ? "" : " (write digest:user:password)";
  const auto error = [&](Errc code, std::string_view what) {
    return Error{code, fmt::format("{} at {}: {}", operation, o.where, what)};
  };
  switch (rc) {
    case ZNOAUTH:
      return error(Errc::denied,
                   fmt::format("the node's ACL does not allow it ({})",
                               o.auth.empty() ? "log in: ?auth_file=FILE"
                               : o.auth_file.empty()
                                   ? "is the password right?"
                                   : fmt::format("is the password in {} right?", o.auth_file)));
    case ZAUTHFAILED:
      return error(Errc::denied, fmt::format("the server does not accept the credential{}", form));
    case ZINVALIDACL:
      return error(Errc::denied,
                   fmt::format("the server does not know the credential for new nodes{}", form));
    case ZEPHEMERALONLOCALSESSION:
      return error(Errc::unavailable, "the server gives local sessions, which cannot keep locks");
    case ZNOTREADONLY:
      return error(Errc::unavailable, "the server is cut off from its ensemble and only reads");
    case quota_exceeded: return error(Errc::cannot_create, "a quota is used up");
    case ZNOCHILDRENFOREPHEMERALS:
      return error(Errc::cannot_create, "a node on the way is another client's ephemeral one");
    default: break;
  }
  if (unknown(rc)) return error(Errc::timed_out, "the connection broke before the answer came");
  return error(Errc::protocol, fmt::format("the server answers {} ({})", zerror(rc), rc));
}

}  // namespace dlock::zookeeper
