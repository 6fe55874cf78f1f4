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
  TRY_VOID(can_serve(traits(), request));
  TRY(path, path_of(options_, request.key, nested));
  return std::make_unique<EphemeralWaiter>(*this, request, std::move(path));
}

bool EphemeralBackend::is_of(std::string_view data, const Owner& owner) {
  const auto record = NodeRecord::parse(data);
  return record && record->is_of(owner);
}

HolderView EphemeralBackend::seen(const Reply& r) {
  return view({{}, r.stat, r.text, Mode::exclusive});
}

Result<bool> EphemeralBackend::find_node(Session& s, Place& p, Deadline until) {
  TRY(path, path_of(options_, p.key, nested));
  const Session::Call sync = s.sync(path), get = s.get(path);
  TRY_VOID(done(s, "look for our node", {&sync, &get}, until));
  const Reply& r = get.reply();
  if (r.rc == ZNONODE) return false;
  if (r.rc != ZOK) return fail(server_error(options_, "look for our node", r.rc));
  if (r.stat.owner != s.id() || (!is_of(r.text, p.owner) && !r.text.starts_with(revoke_word)))
    return false;
  p.node = path;
  p.token = static_cast<FencingToken>(r.stat.czxid);
  p.version = r.stat.version;
  return true;
}

Result<Reply> EphemeralBackend::look(const std::string& path) {
  TRY(s, looker());
  const Session::Call sync = s->sync(path), get = s->get(path);
  TRY_VOID(done(*s, "look", {&sync, &get}, op_deadline()));
  if (get.reply().rc != ZOK && get.reply().rc != ZNONODE)
    return fail(server_error(options_, "look", get.reply().rc));
  return without_strangers(get.reply());
}

Result<std::vector<SessionBackend::HolderNode>> EphemeralBackend::holders(const Key& key) {
  TRY(path, path_of(options_, key, nested));
  TRY(r, look(path));
  std::vector<HolderNode> held;
  if (r.rc == ZOK && r.stat.owner != 0) held.push_back({path, r.stat, r.text});
  return held;
}

Result<Released> EphemeralBackend::force_release(const Key& key,
                                                 std::optional<FencingToken> token) {
  TRY(held, holders(key));
  if (held.empty() || (token && static_cast<FencingToken>(held.front().stat.czxid) != *token))
    return Released::was_not_held;
  TRY(s, looker());
  const Session::Call call = s->remove(held.front().path);
  TRY_VOID(done(*s, "force a release", {&call}, op_deadline()));
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
  TRY(path, path_of(options_, key, nested));
  TRY(r, look(path));
  return view_of(r, key.text());
}

Result<std::vector<std::string>> EphemeralBackend::names() {
  TRY(s, looker());
  const auto [directory, stem] = listed_below(options_);
  const std::string parent =
      directory == "/" ? directory : directory.substr(0, directory.size() - 1);
  const Session::Call sync = s->sync(parent), all = s->children(parent);
  TRY_VOID(done(*s, "list", {&sync, &all}, op_deadline()));
  std::vector<std::string> names;
  if (all.reply().rc == ZNONODE) return names;
  if (all.reply().rc != ZOK) return fail(server_error(options_, "list", all.reply().rc));
  for (const std::string& name : all.reply().names)
    if (name.starts_with(stem) && name != stem) names.push_back(name.substr(stem.size()));
  return names;
}

Result<std::optional<KeyView>> EphemeralBackend::inspect_name(const std::string& name) {
  TRY(s, looker());
  const Session::Call get = s->get(options_.root + name);
  TRY_VOID(done(*s, "list", {&get}, op_deadline()));
  return view_of(without_strangers(get.reply()), name);
}

}  // namespace dlock::zookeeper
