// SPDX-License-Identifier: Apache-2.0
// The requests of a Session.
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include "zookeeper/session/session_callbacks.hpp"

namespace dlock::zookeeper {
namespace {

watcher_fn watcher(WatchId id, watcher_fn fn) { return id == 0 ? nullptr : fn; }
void* context(WatchId id) { return reinterpret_cast<void*>(id); }
const ACL_vector& acl_of(const Options& o) {
  return o.auth.empty() ? ZOO_OPEN_ACL_UNSAFE : ZOO_CREATOR_ALL_ACL;
}

}  // namespace

Session::Call::~Call() {
  if (!state_) return;
  if (state_->done) delete state_;
  else state_->forgotten = true;  // its reply deletes it
}
bool Session::Call::done() const noexcept { return !state_ || state_->done; }
const Reply& Session::Call::reply() const noexcept { return state_->reply; }

Session::Call::State* Session::begin(bool write) {
  ++requests;
  auto* s =
      new Call::State{.session = this, .reply = {}, .results = {}, .op_paths = {}, .op_stats = {}};
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

Session::Call Session::create(const std::string& path, const std::string& data, int flags) {
  auto* s = begin(true);
  return begun(s, zoo_acreate2(handle_, path.c_str(), data.data(), static_cast<int>(data.size()),
                               &acl_of(options_), flags, Callbacks::created, s));
}
Session::Call Session::children(const std::string& path, WatchId w) {
  auto* s = begin(false);
  return begun(s, zoo_awget_children(handle_, path.c_str(), watcher(w, Callbacks::node), context(w),
                                     Callbacks::listed, s));
}
Session::Call Session::get(const std::string& path, WatchId w) {
  auto* s = begin(false);
  return begun(s, zoo_awget(handle_, path.c_str(), watcher(w, Callbacks::node), context(w),
                            Callbacks::read, s));
}
Session::Call Session::exists(const std::string& path, WatchId w) {
  auto* s = begin(false);
  return begun(s, zoo_awexists(handle_, path.c_str(), watcher(w, Callbacks::node), context(w),
                               Callbacks::looked, s));
}
Session::Call Session::remove(const std::string& path) {
  auto* s = begin(true);
  return begun(s, zoo_adelete(handle_, path.c_str(), -1, Callbacks::nothing, s));
}
Session::Call Session::set(const std::string& path, const std::string& data) {
  auto* s = begin(true);
  return begun(s, zoo_aset(handle_, path.c_str(), data.data(), static_cast<int>(data.size()), -1,
                           Callbacks::looked, s));
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
        zoo_create_op_init(&list[i], op.path.c_str(), op.data.data(), size, &acl_of(options_),
                           op.flags, s->op_paths[i].data(),
                           static_cast<int>(s->op_paths[i].size()));
        break;
      case Op::Kind::set:
        zoo_set_op_init(&list[i], op.path.c_str(), op.data.data(), size, op.version,
                        &s->op_stats[i]);
        break;
      case Op::Kind::remove: zoo_delete_op_init(&list[i], op.path.c_str(), op.version); break;
    }
  }
  return begun(s, zoo_amulti(handle_, static_cast<int>(list.size()), list.data(), s->results.data(),
                             Callbacks::nothing, s));
}

}  // namespace dlock::zookeeper
