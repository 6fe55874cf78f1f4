// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/ephemeral/ephemeral_backend.hpp"
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include "zookeeper/ephemeral/ephemeral_waiter.hpp"

namespace dlock::zookeeper {
namespace {

constexpr bool nested = false;

// Without the record of another holder, which a late request to stop has put into this one's node.
Reply without_strangers(Reply r) {
  const auto token = static_cast<FencingToken>(r.stat.czxid);
  if (r.text.starts_with(revoke_word) && !asks_to_stop(r.text, token, /*names_recur=*/true))
    r.text.clear();
  return r;
}

}  // namespace

Result<std::unique_ptr<Waiter>> EphemeralBackend::enqueue(const Request& request) {
  if (auto can = can_serve(traits(), request); !can) return fail(std::move(can.error()));
  auto path = path_of(options_, request.key, nested);
  if (!path) return fail(std::move(path.error()));
  return std::make_unique<EphemeralWaiter>(*this, request, std::move(*path));
}

bool EphemeralBackend::is_of(std::string_view data, const Owner& owner) {
  const auto record = NodeRecord::parse(data);
  return record && record->is_of(owner);
}

HolderView EphemeralBackend::seen(const Reply& r) {
  return view({{}, r.stat, r.text, Mode::exclusive});
}

Result<bool> EphemeralBackend::find_node(Session& s, Place& p, Deadline until) {
  const auto path = path_of(options_, p.key, nested);
  if (!path) return fail(path.error());
  const Session::Call sync = s.sync(*path), get = s.get(*path);
  if (auto ok = done(s, "look for our node", {&sync, &get}, until); !ok)
    return fail(std::move(ok.error()));
  const Reply& r = get.reply();
  if (r.rc == ZNONODE) return false;
  if (r.rc != ZOK) return fail(server_error(options_, "look for our node", r.rc));
  if (r.stat.owner != s.id() || (!is_of(r.text, p.owner) && !r.text.starts_with(revoke_word)))
    return false;
  p.node = *path;
  p.token = static_cast<FencingToken>(r.stat.czxid);
  p.version = r.stat.version;
  return true;
}

Result<Reply> EphemeralBackend::look(const std::string& path) {
  auto s = looker();
  if (!s) return fail(std::move(s.error()));
  const Session::Call sync = (*s)->sync(path), get = (*s)->get(path);
  if (auto ok = done(**s, "look", {&sync, &get}, op_deadline()); !ok)
    return fail(std::move(ok.error()));
  if (get.reply().rc != ZOK && get.reply().rc != ZNONODE)
    return fail(server_error(options_, "look", get.reply().rc));
  return without_strangers(get.reply());
}

Result<std::vector<SessionBackend::HolderNode>> EphemeralBackend::holders(const Key& key) {
  const auto path = path_of(options_, key, nested);
  if (!path) return fail(path.error());
  const auto r = look(*path);
  if (!r) return fail(r.error());
  std::vector<HolderNode> held;
  if (r->rc == ZOK && r->stat.owner != 0) held.push_back({*path, r->stat, r->text});
  return held;
}

Result<Validity> EphemeralBackend::check(const Key& key, const Owner& owner) {
  const auto held = holders(key);
  if (!held) return fail(held.error());
  return !held->empty() && is_of(held->front().data, owner) ? Validity::valid : Validity::stale;
}

Result<Released> EphemeralBackend::force_release(const Key& key,
                                                 std::optional<FencingToken> token) {
  const auto held = holders(key);
  if (!held) return fail(held.error());
  if (held->empty() || (token && static_cast<FencingToken>(held->front().stat.czxid) != *token))
    return Released::was_not_held;
  auto s = looker();
  if (!s) return fail(std::move(s.error()));
  const Session::Call call = (*s)->remove(held->front().path);
  if (auto ok = done(**s, "force a release", {&call}, op_deadline()); !ok)
    return fail(std::move(ok.error()));
  if (call.reply().rc != ZOK && call.reply().rc != ZNONODE)
    return fail(server_error(options_, "force a release", call.reply().rc));
  return call.reply().rc == ZOK ? Released::yes : Released::was_not_held;
}

std::optional<KeyView> EphemeralBackend::view_of(const Reply& r, std::string key) const {
  if (r.rc != ZOK || r.stat.owner == 0) return std::nullopt;
  KeyView v;
  v.key = std::move(key);
  v.waiters_known = false;
  v.holders.push_back(seen(r));
  v.fence = v.holders.front().token;
  v.holders.front().revoked = asks_to_stop(r.text, v.fence, names_recur());
  return v;
}

Result<std::optional<KeyView>> EphemeralBackend::inspect(const Key& key) {
  const auto path = path_of(options_, key, nested);
  if (!path) return fail(path.error());
  const auto r = look(*path);
  if (!r) return fail(r.error());
  return view_of(*r, key.text());
}

Result<std::vector<KeyView>> EphemeralBackend::list() {
  auto s = looker();
  if (!s) return fail(std::move(s.error()));
  const auto [directory, stem] = listed_below(options_);
  const std::string parent =
      directory == "/" ? directory : directory.substr(0, directory.size() - 1);
  const Session::Call sync = (*s)->sync(parent), all = (*s)->children(parent);
  if (auto ok = done(**s, "list", {&sync, &all}, op_deadline()); !ok)
    return fail(std::move(ok.error()));
  std::vector<KeyView> views;
  if (all.reply().rc == ZNONODE) return views;
  if (all.reply().rc != ZOK) return fail(server_error(options_, "list", all.reply().rc));
  for (const std::string& name : all.reply().names) {
    if (!name.starts_with(stem) || name == stem) continue;
    const Session::Call get = (*s)->get(directory + name);
    if (auto ok = done(**s, "list", {&get}, op_deadline()); !ok) return fail(std::move(ok.error()));
    if (auto v = view_of(without_strangers(get.reply()), name.substr(stem.size())))
      views.push_back(std::move(*v));
  }
  std::sort(views.begin(), views.end(),
            [](const KeyView& a, const KeyView& b) { return a.key < b.key; });
  return views;
}

}  // namespace dlock::zookeeper
