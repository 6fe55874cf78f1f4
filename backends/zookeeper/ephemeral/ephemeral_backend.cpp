// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/ephemeral/ephemeral_backend.hpp"
#include <zookeeper/zookeeper.h>
#include "core/text.hpp"
#include "zookeeper/records.hpp"

namespace dlock::zookeeper {
namespace {

// A late request to stop may have written the record of another holder into this node. Removes that
// record from the reply.
Reply without_strangers(Reply r) {
  const auto token = r.stat.token();
  if (r.text.starts_with(revoke_mark) && !is_revoked(r.text, token, /*names_recur=*/true))
    r.text.clear();
  return r;
}

bool is_record_of(std::string_view data, const Owner& owner) {
  const auto record = NodeRecord::parse(data);
  return record && record->is_of(owner);
}

}  // namespace

Result<std::unique_ptr<Waiter>> EphemeralBackend::enqueue(const Request& request) {
  TRY_VOID(can_serve(traits(), request));
  TRY(path, path_of(options_, request.key));
  return std::make_unique<EphemeralWaiter>(*this, request, std::move(path));
}

Result<bool> EphemeralBackend::find_node(Session& s, QueueNode& p, Deadline until) {
  TRY(path, path_of(options_, p.key));
  (void)s.sync(path);
  TRY(r, answer(s, "look for our node", s.get(path), until, {ZNONODE}));
  const bool is_ours = r.rc == ZOK && r.stat.owner == s.id() &&
                       (is_record_of(r.text, p.owner) || r.text.starts_with(revoke_mark));
  if (is_ours) p.set_node(path, r.stat);
  return is_ours;
}

Result<std::vector<SessionBackend::Contender>> EphemeralBackend::read(const std::string& path) {
  TRY(s, reader());
  (void)s->sync(path);
  TRY(node, answer(*s, "look", s->get(path), op_deadline(), {ZNONODE}));
  const Reply r = without_strangers(std::move(node));
  std::vector<Contender> held;
  if (r.rc == ZOK && r.stat.owner != 0) held.push_back({path, r.stat, r.text});
  return held;
}

Result<std::vector<SessionBackend::Contender>> EphemeralBackend::holders(const Key& key) {
  TRY(path, path_of(options_, key));
  return read(path);
}

bool EphemeralBackend::is_of(const Contender& c, const Owner& owner) const {
  return is_record_of(c.data, owner);
}

Result<std::optional<KeyView>> EphemeralBackend::view_of(const std::string& path,
                                                         const std::string& key) {
  TRY(held, read(path));
  if (held.empty()) return std::nullopt;
  const Contender& c = held.front();
  HolderView holder = view(c.stat, c.data, c.mode);
  holder.revoked = is_revoked(c.data, holder.token, names_recur());
  KeyView v{.key = key, .fence = holder.token};
  add_holder(v, c, std::move(holder));
  v.waiters_known = false;
  return v;
}

Result<std::vector<std::string>> EphemeralBackend::names() {
  TRY(s, reader());
  const auto [directory, stem] = listed_below(options_);
  const std::string parent =
      directory == "/" ? directory : directory.substr(0, directory.size() - 1);
  (void)s->sync(parent);
  TRY(all, answer(*s, "list", s->children(parent), op_deadline(), {ZNONODE}));
  std::vector<std::string> names;
  for (const std::string& name : all.names)
    if (name.starts_with(stem) && name != stem) names.push_back(name.substr(stem.size()));
  return names;
}

Result<std::optional<KeyView>> EphemeralBackend::inspect_name(const std::string& name) {
  auto view = view_of(options_.root + name, name);
  if (!view && view.error().code == Errc::denied) return std::nullopt;  // the node is not ours
  return view;
}

// Removes the lock's node, unless the node has no session: then it belongs to another program.
Result<void> EphemeralBackend::erase(const Key& key) {
  TRY(held, holders(key));
  TRY(s, reader());
  for (const Contender& node : held)
    TRY_VOID(answer(*s, "remove", s->remove(node.path), op_deadline(), {ZNONODE}));
  return {};
}

// ---- the waiter --------------------------------------------------------------------------------

EphemeralWaiter::Step EphemeralWaiter::turn(Session& s, QueueNode& p, Deadline end) {
  const Deadline until = backend_.op_deadline();
  if (watch_ != 0 && connection_ == s.connection() && !s.fired(watch_)) return wait(s, end);

  s.forget(std::exchange(watch_, 0));
  connection_ = s.connection();
  const Session::Call create = s.create(path_, NodeRecord::of(request_).text(), ZOO_EPHEMERAL);
  p.no_node(NodeState::unclear);
  TRY_VOID(backend_.done(s, "acquire", {&create}, until));
  const Reply& made = create.reply();
  if (unknown(made.rc)) return go_on;
  if (made.rc == ZNODEEXISTS) {
    TRY(in_the_way, set_watch(s, p));
    return in_the_way ? wait(s, end) : go_on;
  }
  p.no_node(NodeState::none);
  if (made.rc == ZNONODE) {
    TRY_VOID(
        backend_.make_directory(s, std::string{parent_of(path_)}, "", until, /*container=*/false));
    return go_on;
  }
  if (made.rc != ZOK) return fail(server_error(backend_.options(), "acquire", made.rc));
  p.set_node(path_, made.stat);
  backend_.watch(s, p);
  return granted(p, made.sent);
}

EphemeralWaiter::Step EphemeralWaiter::set_watch(Session& s, QueueNode& p) {
  const Session::Call get = s.get(path_, new_watch(s));
  auto answered = backend_.done(s, "watch", {&get}, backend_.op_deadline());
  const Reply& r = get.reply();
  if (!answered || r.rc != ZOK) {
    s.forget(std::exchange(watch_, 0));
    if (!answered) return fail(std::move(answered.error()));
    if (unknown(r.rc) || r.rc == ZNONODE) return go_on;
    return fail(server_error(backend_.options(), "watch", r.rc));
  }
  p.no_node(NodeState::none);
  if (r.stat.owner == 0)
    return fail(Errc::usage,
                "--key {}: its node at {} is not ephemeral, so it never "
                "goes away by itself; recipe ephemeral cannot use it",
                quoted(request_.key.text()), backend_.where());
  if (r.stat.owner == s.id() && is_record_of(r.text, request_.owner)) {
    p.set_node(path_, r.stat);
    p.node_state = NodeState::granted;
    return go_on;  // step() renews it
  }
  sent_at_ = r.sent;
  seen_ = r.stat;
  holder_ = SessionBackend::view(r.stat, r.text, Mode::exclusive);
  return Waiting{0, holder_};
}

EphemeralWaiter::Step EphemeralWaiter::wait(Session& s, Deadline end) {
  if (!request_.wait) return Busy{holder_, {}, sent_at_};
  if (listen_for_watch(s, connection_, path_, end) == Session::Wake::event) return go_on;
  return Waiting{0, holder_, {}, sent_at_};
}

}  // namespace dlock::zookeeper
