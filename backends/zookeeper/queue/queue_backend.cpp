// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/queue/queue_backend.hpp"
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include "core/text.hpp"
#include "zookeeper/queue/queue_waiter.hpp"

namespace dlock::zookeeper {

namespace {

// The number of simultaneous reads that one connection handles easily.
constexpr std::size_t most_at_once = 256;

bool in_a_queue(const std::string& name) {
  return parse_member(Dialect::sequential, name) || parse_member(Dialect::curator, name) ||
         parse_member(Dialect::kazoo, name);
}

}  // namespace

Result<std::unique_ptr<Waiter>> QueueBackend::enqueue(const Request& request) {
  TRY_VOID(can_serve(traits(), request));
  TRY(path, path_of(options_, request.key));
  return std::make_unique<QueueWaiter>(*this, request, std::move(path));
}

std::string QueueBackend::directory_data(const Key& key) const {
  const bool shortened = options_.native && !key_from_store_name(store_name(key));
  return shortened ? percent_encode(key.text()) : std::string{};
}

Error QueueBackend::foreign(const Key& key, std::string_view node) const {
  std::string_view hint = "another --key or ?prefix=";
  for (const auto& [dialect, recipe] : {std::pair{Dialect::curator, "--recipe curator"},
                                        std::pair{Dialect::kazoo, "--recipe kazoo"},
                                        std::pair{Dialect::sequential, "--recipe sequential"}})
    if (dialect != dialect_ && parse_member(dialect, node)) hint = recipe;
  return {Errc::usage,
          fmt::format("--key {}: its directory at {} is used by other programs, which recipe {} "
                      "would not exclude (node {}); use {}",
                      quoted(key.text()), options_.where, traits().recipe, quoted(node), hint)};
}

Error QueueBackend::too_new(const std::string& node, unsigned layout) const {
  return {Errc::usage, fmt::format("node {} at {} has layout {}, and this dlock knows layout 1 (a "
                                   "newer dlock wrote it: install that "
                                   "one on this host, too)",
                                   quoted(node), options_.where, layout)};
}

Result<bool> QueueBackend::find_node(Session& s, Place& p, Deadline until) {
  TRY(path, path_of(options_, p.key));
  const Session::Call sync = s.sync(path), list = s.children(path);
  TRY_VOID(done(s, "look for our node", {&sync, &list}, until));
  if (list.reply().rc == ZNONODE) return false;
  if (list.reply().rc != ZOK)
    return fail(server_error(options_, "look for our node", list.reply().rc));
  const std::string guid = guid_of(dialect_, p.owner);
  for (const std::string& name : list.reply().names) {
    const auto member = parse_member(dialect_, name);
    if (!member || !name.starts_with(guid)) continue;
    const std::string node = path + '/' + name;
    const Session::Call get = s.get(node);
    TRY_VOID(done(s, "look for our node", {&get}, until));
    const Reply& seen = get.reply();
    if (unknown(seen.rc)) return fail(server_error(options_, "look for our node", seen.rc));
    // A node left by an earlier session of ours is about to go: taking it for ours would be no
    // lock.
    if (seen.rc != ZOK || seen.stat.owner != s.id()) continue;
    p.node = node;
    p.mode = member->mode;
    p.token = static_cast<FencingToken>(seen.stat.czxid);
    p.version = seen.stat.version;
    const auto slot = NodeRecord::parse(seen.text).value_or(NodeRecord{}).slot;
    p.slotted = slot.has_value();
    p.slot = slot.value_or(0);
    return true;
  }
  return false;
}

std::vector<Op> QueueBackend::release_ops(const Place& p) const {
  std::vector<Op> ops{{Op::Kind::remove, p.node}};
  if (p.mode == Mode::permit)
    ops.push_back({Op::Kind::remove, std::string{parent_of(p.node)} + '/' + slot_node(p.slot)});
  return ops;
}

HolderView QueueBackend::seen(const Reply& r, Mode mode) {
  return view({{}, r.stat, r.text, mode});
}

// ---- looking -----------------------------------------------------------------------------------

Result<QueueBackend::Look> QueueBackend::look(Session& s, const std::string& path, bool caught_up) {
  const Deadline until = op_deadline();
  Look seen;
  const auto sync = caught_up ? s.sync(path) : Session::Call{};
  const Session::Call data = s.get(path), list = s.children(path);
  TRY_VOID(done(s, "look", {&data, &list}, until));
  for (const Session::Call* c : {&data, &list}) {
    if (c->reply().rc == ZNONODE) return seen;
    if (c->reply().rc != ZOK) return fail(server_error(options_, "look", c->reply().rc));
  }
  seen.exists = true;
  if (options_.native) seen.key = percent_decode(data.reply().text).value_or("");
  seen.directory = Directory::of(dialect_, list.reply().names);
  const auto& queue = seen.directory.queue;
  for (std::size_t begin = 0; begin < queue.size(); begin += most_at_once) {
    std::vector<Session::Call> calls;
    const std::size_t end = std::min(queue.size(), begin + most_at_once);
    for (std::size_t i = begin; i < end; ++i) calls.push_back(s.get(path + '/' + queue[i].name));
    TRY_VOID(done(s, "look", {&calls.back()}, until));
    for (std::size_t i = begin; i < end; ++i) {
      const Reply& r = calls[i - begin].reply();
      if (unknown(r.rc)) return fail(server_error(options_, "look", r.rc));
      if (r.rc != ZOK) continue;  // gone meanwhile
      if (const auto layout = newer_layout(r.text)) return fail(too_new(queue[i].name, *layout));
      Seen m{queue[i], r.stat, r.text};
      m.holds = m.member.mode == Mode::permit
                    ? NodeRecord::parse(m.data).value_or(NodeRecord{}).slot.has_value()
                    : runs(seen.directory, i, 0);
      seen.members.push_back(std::move(m));
    }
  }
  return seen;
}

Result<std::vector<SessionBackend::HolderNode>> QueueBackend::holders(const Key& key) {
  TRY(path, path_of(options_, key));
  TRY(s, looker());
  TRY(seen, look(*s, path, true));
  std::vector<HolderNode> held;
  for (const Seen& m : seen.members)
    if (m.holds) held.push_back({path + '/' + m.member.name, m.stat, m.data, m.member.mode});
  return held;
}

bool QueueBackend::is_of(const HolderNode& h, const Owner& owner) const {
  return name_of(h.path).starts_with(guid_of(dialect_, owner));
}

Result<Released> QueueBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  TRY(path, path_of(options_, key));
  TRY(got, looker());
  Session& s = *got;
  TRY(seen, look(s, path, true));
  Released answer = Released::was_not_held;
  for (const Seen& m : seen.members) {
    if (!m.holds || (token && static_cast<FencingToken>(m.stat.czxid) != *token)) continue;
    Place p{key, Owner{}};
    p.node = path + '/' + m.member.name;
    p.mode = m.member.mode;
    p.token = static_cast<FencingToken>(m.stat.czxid);
    p.slot = NodeRecord::parse(m.data).value_or(NodeRecord{}).slot.value_or(0);
    auto ops = release_ops(p);
    const Session::Call call = ops.size() == 1 ? s.remove(p.node) : s.multi(std::move(ops));
    TRY_VOID(done(s, "force a release", {&call}, op_deadline()));
    if (call.reply().rc == ZOK) answer = Released::yes;
    else if (call.reply().rc != ZNONODE)
      return fail(server_error(options_, "force a release", call.reply().rc));
  }
  return answer;
}

Result<std::optional<KeyView>> QueueBackend::inspect(const Key& key) {
  TRY(path, path_of(options_, key));
  TRY(s, looker());
  return view_of(*s, path, key.text());
}

Result<std::optional<KeyView>> QueueBackend::view_of(Session& s, const std::string& path,
                                                     const std::string& key) {
  TRY(seen, look(s, path, true));
  if (!seen.exists) return std::nullopt;
  KeyView view;
  view.key = !key.empty() ? key : seen.key;
  for (const Seen& m : seen.members) {
    HolderView h = SessionBackend::view({path, m.stat, m.data, m.member.mode});
    h.revoked = asks_to_stop(m.data, h.token, names_recur());
    if (h.id.empty()) h.id = m.member.name.substr(dialect_ == Dialect::kazoo ? 0 : 3, 8);
    if (m.holds) {
      view.fence = std::max(view.fence, h.token);
      view.holders.push_back(std::move(h));
    } else {
      view.waiters.push_back({h.id, m.member.mode, h.who});
    }
  }
  constexpr std::int32_t near_the_wrap = INT32_MAX - 10'000'000;
  if (!seen.members.empty() && seen.members.back().member.number > near_the_wrap)
    view.notes.push_back(
        "the sequence numbers are about to wrap around: Curator and kazoo sort wrongly then, dlock "
        "does not");
  if (!seen.directory.foreign.empty())
    view.notes.push_back(fmt::format("node {} belongs to another program", seen.directory.foreign));
  return view;
}

// Directories of keys below `path` whose names begin with `stem`: for native recipes its children;
// else all that are no queue nodes, at any depth.
Result<void> QueueBackend::walk(Session& s, const std::string& path, std::string_view stem,
                                std::vector<std::string>& paths) {
  const Session::Call list = s.children(path == "/" ? path : path.substr(0, path.size() - 1));
  if (auto ok = done(s, "list", {&list}, op_deadline()); !ok) return ok;
  if (list.reply().rc == ZNONODE) return {};
  if (list.reply().rc != ZOK) return fail(server_error(options_, "list", list.reply().rc));
  for (const std::string& name : list.reply().names) {
    if (!name.starts_with(stem) || name == stem) continue;
    const std::string child = path + name;
    if (options_.native) {
      paths.push_back(child);
      continue;
    }
    if (in_a_queue(name) || child == "/zookeeper") continue;
    const std::size_t before = paths.size();
    if (auto ok = walk(s, child + '/', "", paths); !ok) return ok;
    const Session::Call inside = s.children(child);
    if (auto ok = done(s, "list", {&inside}, op_deadline()); !ok) return ok;
    const auto& names = inside.reply().names;
    const bool queue = std::any_of(names.begin(), names.end(), in_a_queue);
    if (queue || paths.size() == before) paths.push_back(child);
  }
  return {};
}

Result<std::vector<std::string>> QueueBackend::names() {
  TRY(s, looker());
  const auto [directory, stem] = listed_below(options_);
  std::vector<std::string> names;
  TRY_VOID(walk(*s, directory, stem, names));
  for (std::string& path : names) path.erase(0, options_.root.size());
  return names;
}

Result<std::optional<KeyView>> QueueBackend::inspect_name(const std::string& name) {
  std::string key = name;
  if (options_.native) {
    const auto parsed = key_from_store_name(name);
    key = parsed ? parsed->text() : "";
  }
  TRY(s, looker());
  TRY(view, view_of(*s, options_.root + name, key));
  if (view && view->key.empty()) view->key = name;
  return std::move(view);
}

}  // namespace dlock::zookeeper
