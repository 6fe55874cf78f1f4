// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/ephemeral_recipe.hpp"
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include "zookeeper/record.hpp"

namespace dlock::zookeeper {

namespace {

constexpr bool directories = false;

bool record_is_of(std::string_view data, const Owner& owner) {
  const auto r = Record::parse(data);
  return r && r->id == owner.hex().substr(0, 8);
}

}  // namespace

Result<std::unique_ptr<Waiter>> EphemeralBackend::enqueue(const Request& request) {
  if (request.mode == Mode::shared) return fail(cannot("no --shared: there is one node"));
  if (request.mode == Mode::permit) return fail(cannot("no --limit: there is one node"));
  if (request.lock_delay > Duration{}) return fail(cannot("no --lock-delay: other programs would not keep it"));
  if (request.ttl <= Duration{}) return fail(cannot("a session needs a --ttl above 0"));
  auto path = path_of(options_, request.key, directories);
  if (!path) return fail(std::move(path.error()));
  return std::make_unique<EphemeralWaiter>(*this, request, std::move(*path));
}

HolderView EphemeralBackend::seen(const Reply& r) { return view({{}, r.stat, r.text, Mode::exclusive}); }

Result<bool> EphemeralBackend::find_node(Session& s, Place& p, Deadline until) {
  const auto path = path_of(options_, p.key, directories);
  if (!path) return fail(path.error());
  const Session::Call sync = s.sync(*path), get = s.get(*path);
  if (auto ok = done(s, "look for our node", {&sync, &get}, until); !ok) return fail(std::move(ok.error()));
  const Reply& r = get.reply();
  if (r.rc == ZNONODE) return false;
  if (r.rc != ZOK) return fail(server_error(options_, "look for our node", r.rc));
  if (r.stat.owner != s.id() || (!record_is_of(r.text, p.owner) && r.text != revoke_word)) return false;
  p.node = *path;
  p.token = static_cast<FencingToken>(r.stat.czxid);
  p.version = r.stat.version;
  return true;
}

Result<std::vector<Base::Held>> EphemeralBackend::holders(const Key& key) {
  const auto path = path_of(options_, key, directories);
  if (!path) return fail(path.error());
  auto s = looker();
  if (!s) return fail(std::move(s.error()));
  const Session::Call sync = (*s)->sync(*path), get = (*s)->get(*path);
  if (auto ok = done(**s, "look", {&sync, &get}, op_deadline()); !ok) return fail(std::move(ok.error()));
  const Reply& r = get.reply();
  std::vector<Held> held;
  if (r.rc != ZOK && r.rc != ZNONODE) return fail(server_error(options_, "look", r.rc));
  if (r.rc == ZOK && r.stat.owner != 0) held.push_back({*path, r.stat, r.text});
  return held;
}

Result<Validity> EphemeralBackend::check(const Key& key, const Owner& owner) {
  const auto held = holders(key);
  if (!held) return fail(held.error());
  return !held->empty() && record_is_of(held->front().data, owner) ? Validity::valid : Validity::stale;
}

Result<Released> EphemeralBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  const auto held = holders(key);
  if (!held) return fail(held.error());
  if (held->empty() || (token && static_cast<FencingToken>(held->front().stat.czxid) != *token)) return Released::was_not_held;
  auto s = looker();
  if (!s) return fail(std::move(s.error()));
  const Session::Call call = (*s)->remove(held->front().path);
  if (auto ok = done(**s, "force a release", {&call}, op_deadline()); !ok) return fail(std::move(ok.error()));
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
  if (r.text == revoke_word) v.notes.emplace_back("the holder was asked to stop");
  return v;
}

Result<std::optional<KeyView>> EphemeralBackend::inspect(const Key& key) {
  const auto path = path_of(options_, key, directories);
  if (!path) return fail(path.error());
  auto s = looker();
  if (!s) return fail(std::move(s.error()));
  const Session::Call sync = (*s)->sync(*path), get = (*s)->get(*path);
  if (auto ok = done(**s, "look", {&sync, &get}, op_deadline()); !ok) return fail(std::move(ok.error()));
  if (get.reply().rc != ZOK && get.reply().rc != ZNONODE) return fail(server_error(options_, "look", get.reply().rc));
  return view_of(get.reply(), key.text());
}

Result<std::vector<KeyView>> EphemeralBackend::list() {
  auto s = looker();
  if (!s) return fail(std::move(s.error()));
  const auto [directory, stem] = listed_below(options_);
  const std::string parent = directory == "/" ? directory : directory.substr(0, directory.size() - 1);
  const Session::Call sync = (*s)->sync(parent), all = (*s)->children(parent);
  if (auto ok = done(**s, "list", {&sync, &all}, op_deadline()); !ok) return fail(std::move(ok.error()));
  std::vector<KeyView> views;
  if (all.reply().rc == ZNONODE) return views;
  if (all.reply().rc != ZOK) return fail(server_error(options_, "list", all.reply().rc));
  for (const std::string& name : all.reply().names) {
    if (!name.starts_with(stem) || name == stem) continue;
    const Session::Call get = (*s)->get(directory + name);
    if (auto ok = done(**s, "list", {&get}, op_deadline()); !ok) return fail(std::move(ok.error()));
    if (auto v = view_of(get.reply(), name.substr(stem.size()))) views.push_back(std::move(*v));
  }
  std::sort(views.begin(), views.end(), [](const KeyView& a, const KeyView& b) { return a.key < b.key; });
  return views;
}

// ---- waiting -------------------------------------------------------------------------------------------------------------

EphemeralWaiter::Step EphemeralWaiter::turn(Deadline end) {
  const int interrupt = request_.wait ? backend_.options().interrupt_fd : -1;
  auto line = backend_.line_for(request_, later(Clock::now(), backend_.options().connect_timeout), interrupt);
  if (!line) return fail(std::move(line.error()));
  Session& s = *(*line)->session;
  Place& p = backend_.place_for(request_);
  if (p.session != s.id()) {
    p.node.clear();
    p.unsure = p.granted = false;
    watch_ = 0;
  }
  p.line = *line;
  p.session = s.id();
  if (p.granted) {
    const auto renewal = backend_.renew(backend_.lease_of(p, Clock::now()), request_.ttl);
    if (!renewal) return fail(renewal.error());
    if (const auto* kept = std::get_if<Kept>(&*renewal)) return Progress{Granted{kept->lease, -1, s.alarm_fd()}};
    return std::optional<Progress>{};
  }
  const Deadline until = backend_.op_deadline();
  if (watch_ != 0 && watch_session_ == &s && connection_ == s.connections() && !s.fired(watch_)) return look(s, p, end);

  connection_ = s.connections();
  const Session::Call create = s.create(path_, Record::of(request_).text(), ZOO_EPHEMERAL);
  p.unsure = true;
  if (!s.finish({&create}, until))
    return fail(Errc::timed_out, fmt::format("acquire at {}: no answer in time", backend_.where()));
  const Reply& made = create.reply();
  if (unknown(made.rc)) return std::optional<Progress>{};
  if (made.rc == ZNONODE) {
    p.unsure = false;
    const auto dir = backend_.make_directory(s, std::string{parent_of(path_)}, "", until, directories);
    if (!dir) return fail(dir.error());
    return std::optional<Progress>{};
  }
  if (made.rc == ZNODEEXISTS) return look(s, p, end);
  p.unsure = false;
  if (made.rc != ZOK) return fail(server_error(backend_.options(), "acquire", made.rc));
  p.node = path_;
  p.token = static_cast<FencingToken>(made.stat.czxid);
  p.version = made.stat.version;
  p.granted = true;
  return Progress{Granted{backend_.lease_of(p, made.sent), -1, s.alarm_fd()}};
}

EphemeralWaiter::Step EphemeralWaiter::look(Session& s, Place& p, Deadline end) {
  if (watch_ == 0 || watch_session_ != &s || s.fired(watch_)) {
    if (watch_ != 0 && watch_session_ == &s) s.forget(watch_);
    watch_ = s.new_watch();
    watch_session_ = &s;
    const Session::Call get = s.get(path_, watch_);
    if (!s.finish({&get}, backend_.op_deadline()))
      return fail(Errc::timed_out, fmt::format("watch at {}: no answer in time", backend_.where()));
    const Reply& r = get.reply();
    if (r.rc != ZOK) {
      s.forget(watch_);
      watch_ = 0;
      if (unknown(r.rc) || r.rc == ZNONODE) return std::optional<Progress>{};
      return fail(server_error(backend_.options(), "watch", r.rc));
    }
    if (r.stat.owner == 0) {
      p.unsure = false;
      return fail(
          Errc::usage,
          fmt::format(
              "--key {}: its node at {} is not ephemeral, so it never goes away by itself; recipe ephemeral cannot use it",
              quoted(request_.key.text()), backend_.where()));
    }
    if (r.stat.owner == s.id() && record_is_of(r.text, request_.owner)) {
      p.node = path_;
      p.token = static_cast<FencingToken>(r.stat.czxid);
      p.version = r.stat.version;
      p.granted = true;
      p.unsure = false;
      return std::optional<Progress>{};  // turn() renews it
    }
    p.unsure = false;
    holder_ = EphemeralBackend::seen(r);
  }
  if (!request_.wait) return Progress{Busy{holder_}};
  for (;;) {
    if (s.fired(watch_)) {
      ++backend_.wakeups;
      return std::optional<Progress>{};
    }
    if (s.state() != Session::State::connected || s.connections() != connection_) return std::optional<Progress>{};
    if (Clock::now() >= end) return Progress{Waiting{0, holder_}};
    if (s.listen(end, backend_.options().interrupt_fd) == Session::Heard::interrupted) return Progress{Waiting{0, holder_}};
  }
}

}  // namespace dlock::zookeeper
