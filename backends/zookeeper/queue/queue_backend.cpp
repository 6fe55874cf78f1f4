// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/queue/queue_backend.hpp"
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include "common/exchange.hpp"
#include "common/record_reader.hpp"
#include "core/text.hpp"
#include "zookeeper/queue/queue_waiter.hpp"

namespace dlock::zookeeper {

namespace {

// how many simultaneous reads one connection handles easily
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
  return newer_record("node " + dlock::quoted(node), options_.where, layout);
}

Result<bool> QueueBackend::find_node(Session& s, QueueNode& p, Deadline until) {
  constexpr std::string_view what = "look for our node";
  TRY(path, path_of(options_, p.key));
  (void)s.sync(path);
  TRY(list, answer(s, what, s.children(path), until, {ZNONODE}));
  const std::string guid = guid_of(dialect_, p.owner);
  for (const std::string& name : list.names) {
    const auto member = parse_member(dialect_, name);
    if (!member || !name.starts_with(guid)) continue;
    const std::string node = path + '/' + name;
    const Session::Call get = s.get(node);
    TRY_VOID(done(s, what, {&get}, until));
    const Reply& found = get.reply();
    if (unknown(found.rc)) return fail(server_error(options_, what, found.rc));
    // A node of an earlier session of ours will soon be deleted, so it is no lock.
    if (found.rc != ZOK || found.stat.owner != s.id()) continue;
    p.set_node(node, found.stat);
    p.mode = member->mode;
    p.slot = NodeRecord::parse(found.text).value_or(NodeRecord{}).slot;
    return true;
  }
  return false;
}

std::vector<Op> QueueBackend::release_ops(const std::string& node,
                                          std::optional<unsigned> slot) const {
  std::vector<Op> ops{{Op::Kind::remove, node}};
  if (slot)
    ops.push_back({Op::Kind::remove, std::string{parent_of(node)} + '/' + slot_node(*slot)});
  return ops;
}

bool QueueBackend::is_of(const Contender& c, const Owner& owner) const {
  return name_of(c.path).starts_with(guid_of(dialect_, owner));
}

// ---- reading -----------------------------------------------------------------------------------

Result<QueueBackend::Queue> QueueBackend::read(Session& s, const std::string& path) {
  const Deadline until = op_deadline();
  Queue read;
  (void)s.sync(path);
  Session::Call data = s.get(path), list = s.children(path);
  TRY(record, answer(s, "look", std::move(data), until, {ZNONODE}));
  TRY(names, answer(s, "look", std::move(list), until, {ZNONODE}));
  if (record.rc == ZNONODE || names.rc == ZNONODE) return read;
  read.exists = true;
  if (options_.native) read.key = percent_decode(record.text).value_or("");
  read.directory = Directory::of(dialect_, names.names);
  const auto& queue = read.directory.queue;
  for (std::size_t begin = 0; begin < queue.size(); begin += most_at_once) {
    std::vector<Session::Call> calls;
    const std::size_t end = std::min(queue.size(), begin + most_at_once);
    for (std::size_t i = begin; i < end; ++i) calls.push_back(s.get(path + '/' + queue[i].name));
    TRY_VOID(done(s, "look", {&calls.back()}, until));
    for (std::size_t i = begin; i < end; ++i) {
      const Reply& r = calls[i - begin].reply();
      if (unknown(r.rc)) return fail(server_error(options_, "look", r.rc));
      if (r.rc != ZOK) continue;  // the node is gone
      if (const auto layout = newer_layout(r.text)) return fail(too_new(queue[i].name, *layout));
      const bool holds = queue[i].mode == Mode::permit
                             ? NodeRecord::parse(r.text).value_or(NodeRecord{}).slot.has_value()
                             : runs(read.directory, i, 0);
      read.contenders.push_back({path + '/' + queue[i].name, r.stat, r.text, queue[i].mode, holds});
    }
  }
  return read;
}

Result<std::vector<SessionBackend::Contender>> QueueBackend::holders(const Key& key) {
  TRY(path, path_of(options_, key));
  TRY(s, reader());
  TRY(queue, read(*s, path));
  std::erase_if(queue.contenders, [](const Contender& c) { return !c.holds; });
  return std::move(queue.contenders);
}

Result<std::optional<KeyView>> QueueBackend::view_of(const std::string& path,
                                                     const std::string& key) {
  TRY(s, reader());
  TRY(queue, read(*s, path));
  if (!queue.exists) return std::nullopt;
  KeyView all;
  all.key = !key.empty() ? key : queue.key;
  for (const Contender& c : queue.contenders) {
    HolderView h = view(c.stat, c.data, c.mode);
    h.revoked = is_revoked(c.data, h.token, names_recur());
    if (h.id.empty()) h.id = name_of(c.path).substr(dialect_ == Dialect::kazoo ? 0 : 3, 8);
    if (c.holds) {
      all.fence = std::max(all.fence, h.token);
      add_holder(all, c, std::move(h));
    } else {
      all.waiters.push_back({h.id, c.mode, h.who});
    }
  }
  if (traits().starts)
    if (const auto note = read_note(*s, path, op_deadline());
        note && note->start && note->start->until > s->leader_time().value_or(wall_micros()))
      all.noted_start = note->start->at;
  constexpr std::int32_t near_the_wrap = INT32_MAX - 10'000'000;
  const Directory& directory = queue.directory;
  if (!directory.queue.empty() && directory.queue.back().number > near_the_wrap)
    all.notes.push_back(
        "the sequence numbers are about to wrap around: Curator and kazoo sort wrongly then, dlock "
        "does not");
  if (!directory.foreign.empty())
    all.notes.push_back(fmt::format("node {} belongs to another program", directory.foreign));
  return all;
}

// Lists the directories of keys below `path` whose names begin with `stem`. For native recipes
// these are the children. For other recipes these are nodes at any depth that are not in a queue.
Result<void> QueueBackend::walk(Session& s, const std::string& path, std::string_view stem,
                                std::vector<std::string>& paths) {
  TRY(list, answer(s, "list", s.children(path == "/" ? path : path.substr(0, path.size() - 1)),
                   op_deadline(), {ZNONODE}));
  for (const std::string& name : list.names) {
    if (!name.starts_with(stem) || name == stem) continue;
    const std::string child = path + name;
    if (options_.native) {
      paths.push_back(child);
      continue;
    }
    if (in_a_queue(name) || child == "/zookeeper") continue;
    const std::size_t before = paths.size();
    TRY_VOID(walk(s, child + '/', "", paths));
    const Session::Call inside = s.children(child);
    TRY_VOID(done(s, "list", {&inside}, op_deadline()));
    const auto& names = inside.reply().names;
    const bool queue = std::ranges::any_of(names, in_a_queue);
    if (queue || paths.size() == before) paths.push_back(child);
  }
  return {};
}

Result<std::vector<std::string>> QueueBackend::names() {
  TRY(s, reader());
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
  TRY(view, view_of(options_.root + name, key));
  if (view && view->key.empty()) view->key = name;
  return std::move(view);
}

// Removes the nodes that our recipe has in the directory, also nodes of sessions that have not
// ended, and then the directory. If the directory has nodes of other programs, these nodes and the
// directory stay.
Result<void> QueueBackend::erase(const Key& key) {
  TRY(path, path_of(options_, key));
  TRY(s, reader());
  const std::string what = "remove " + path;
  for (const Deadline until = op_deadline();;) {
    (void)s->sync(path);
    TRY(list, answer(*s, what, s->children(path), until, {ZNONODE}));
    if (list.rc == ZNONODE) return {};
    std::string foreign;
    for (const std::string& name : list.names) {
      if (!is_helper_node(dialect_, name) && !parse_member(dialect_, name)) foreign = name;
      else TRY_VOID(answer(*s, what, s->remove(path + '/' + name), until, {ZNONODE}));
    }
    if (!foreign.empty())
      return fail(Errc::protocol, "{} has a node {} of another program in it", path,
                  quoted(foreign));
    TRY(gone, answer(*s, what, s->remove(path), until, {ZNONODE, ZNOTEMPTY}));
    if (gone.rc != ZNOTEMPTY) return {};
    if (Clock::now() >= until) return fail(server_error(options_, what, ZNOTEMPTY));
  }
}

}  // namespace dlock::zookeeper
