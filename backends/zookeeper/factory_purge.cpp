// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include "core/text.hpp"
#include "zookeeper/factory.hpp"
#include "zookeeper/queue/queue.hpp"
#include "zookeeper/session/session.hpp"

namespace dlock::zookeeper {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t removed_at_once = 256;  // requests under way

bool gone(int rc) noexcept { return rc == ZOK || rc == ZNONODE; }

class Purge {
 public:
  explicit Purge(const Options& o) : options_(o), session_(o, 10s) {}

  Result<void> connect() {
    if (auto ok = session_.connect(later(Clock::now(), options_.connect_timeout)); !ok) return ok;
    if (session_.state() == Session::State::connected) return {};
    return fail(Errc::unavailable, fmt::format("{}: no session available", options_.where));
  }

  // Most are empty directories, and are removed together.
  Result<void> directories(std::span<const std::string> paths, Dialect dialect) {
    std::vector<Session::Call> calls;
    for (const std::string& path : paths) calls.push_back(session_.remove(path));
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (!session_.finish({&calls[i]}, until())) return no_answer();
      if (gone(calls[i].reply().rc)) continue;
      if (auto ok = directory(paths[i], dialect); !ok) return ok;
    }
    return {};
  }

  // Recipe ephemeral: the node itself. A node without a session is foreign.
  Result<void> node(const std::string& path) {
    const Session::Call sync = session_.sync(path), look = session_.exists(path);
    if (!session_.finish({&sync, &look}, until())) return no_answer();
    if (look.reply().rc == ZNONODE || (look.reply().rc == ZOK && look.reply().stat.owner == 0))
      return {};
    if (look.reply().rc != ZOK) return fail(server_error(options_, "remove", look.reply().rc));
    const Session::Call remove = session_.remove(path);
    if (!session_.finish({&remove}, until())) return no_answer();
    return gone(remove.reply().rc) ? Result<void>{}
                                   : fail(server_error(options_, "remove", remove.reply().rc));
  }

 private:
  Deadline until() const { return later(Clock::now(), options_.op_timeout); }
  Result<void> no_answer() const {
    return fail(Errc::timed_out, fmt::format("remove at {}: no answer in time", options_.where));
  }

  // One with children: those of our recipe go first, of sessions that have not ended yet; foreign
  // ones stay.
  Result<void> directory(const std::string& path, Dialect dialect) {
    for (const Deadline end = until();;) {
      const Session::Call sync = session_.sync(path), list = session_.children(path);
      if (!session_.finish({&sync, &list}, end)) return no_answer();
      if (list.reply().rc == ZNONODE) return {};
      if (list.reply().rc != ZOK)
        return fail(server_error(options_, "remove " + path, list.reply().rc));
      std::vector<std::string> foreign;
      for (const std::string& name : list.reply().names) {
        const bool mark =
            dialect == Dialect::sequential && (parse_slot(name) || parse_old_mark(name));
        if (!mark && !parse_member(dialect, name)) {
          foreign.push_back(name);
          continue;
        }
        const Session::Call child = session_.remove(path + '/' + name);
        if (!session_.finish({&child}, end)) return no_answer();
        if (!gone(child.reply().rc))
          return fail(server_error(options_, "remove " + path, child.reply().rc));
      }
      if (!foreign.empty())
        return fail(Errc::protocol, fmt::format("{} has a node {} of another program in it", path,
                                                quoted(foreign.front())));
      const Session::Call remove = session_.remove(path);
      if (!session_.finish({&remove}, end)) return no_answer();
      if (gone(remove.reply().rc)) return {};
      if (remove.reply().rc != ZNOTEMPTY || Clock::now() >= end)
        return fail(server_error(options_, "remove " + path, remove.reply().rc));
    }
  }

  const Options& options_;
  Session session_;
};

}  // namespace

Result<void> purge(const Url& url, const Traits& traits, const Settings& settings,
                   std::span<const Key> keys) {
  TRY(options, parse_options(url, traits, settings));
  const auto dialect = dialect_of(traits.recipe);
  std::vector<std::string> paths;
  for (const Key& key : keys) {
    TRY(path, path_of(options, key, dialect.has_value()));
    paths.push_back(std::move(path));
  }
  Purge work(options);
  if (auto ok = work.connect(); !ok) return ok;
  for (std::span<const std::string> left = paths; !left.empty();
       left = left.subspan(std::min(left.size(), removed_at_once))) {
    const auto some = left.first(std::min(left.size(), removed_at_once));
    if (dialect)
      if (auto ok = work.directories(some, *dialect); !ok) return ok;
    if (!dialect)
      for (const std::string& path : some)
        if (auto ok = work.node(path); !ok) return ok;
  }
  return {};
}

}  // namespace dlock::zookeeper
