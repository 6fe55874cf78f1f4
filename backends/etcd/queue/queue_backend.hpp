// SPDX-License-Identifier: Apache-2.0
// The recipes queue and concurrency. Each contender has a key below the lock's prefix, and the key
// is attached to a lease. The contender whose key was created first holds the lock. The recipes
// differ in the names of the keys, and concurrency has fewer features.
//
// With each renewal a holder moves its key to a new lease, and so proves that it holds the lock. A
// keepalive would prove nothing (README.md says why).
#pragma once
#include <sys/epoll.h>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include "common/unanswered_releases.hpp"
#include "etcd/client/client.hpp"
#include "etcd/queue/contender.hpp"
#include "store/backend.hpp"
#include "util/fd.hpp"

namespace dlock::etcd {

class QueueBackend final : public Backend {
 public:
  QueueBackend(const Traits& traits, Options options)
      : traits_(traits), client_(std::move(options)), alarm_(::epoll_create1(EPOLL_CLOEXEC)) {}

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return client_.options().where; }
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease&, Duration ttl) override;
  Result<Renewal> detach(const Lease&, Duration ttl, std::optional<RunEnd>) override;
  bool alarmed(const Lease&) override;
  Result<Released> release(const Lease&, std::optional<RunEnd>) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  Result<Validity> check(const Key&, const GrantId&) override;
  Result<std::optional<KeyView>> inspect(const Key&) override;
  Result<std::vector<std::string>> names() override;
  Result<std::optional<KeyView>> inspect_name(const std::string& name) override;
  Result<Released> revoke(const Key&) override;
  Result<RunStarts> starts(const Key&) override;
  Result<UpdateResult> note_start(const Lease&, const RunStartUpdate&) override;
  Result<void> erase(const Key&) override;
  Result<std::vector<Finding>> doctor() override;
  Counters counters() const noexcept override { return {client_.requests, wakeups_}; }

 private:
  friend class QueueWaiter;

  // A grant to an owner, as this process last knew it.
  struct Held {
    std::string key{};  // the key in the store
    FencingToken token = 0;
    // the last known lease of the key; a renewal without a reply may have moved the key to a newer
    // lease
    std::int64_t lease = 0;
    Record record;              // its `granted` may be set although it is 0 in the store
    std::int64_t seen = 0;      // the revision of the last reply about the key
    std::int64_t modified = 0;  // the key's revision after the last renewal; 0: no renewal yet
    std::string value{};        // the key's value after the last renewal
    std::string ended{};        // Lease::ended, until a renewal has written it into the key's value
    // The holder begins to watch its own key one second after the grant. A job that ends earlier
    // needs only three requests, and the watch would be the fourth. The timer fires when the watch
    // must begin, and when alarmed() must read the watch again.
    Fd timer{};
    std::optional<Watch> watch{};
    bool alarm = false;  // the key was revoked or deleted, and alarmed() has not reported it yet
  };
  using HeldId = std::pair<std::string, Owner>;

  // Returns the prefix of the contenders' keys for this lock. `name`: the lock's name in the store.
  std::string places(const std::string& name) const;
  std::string places(const Key& key) const { return places(name_of(key)); }
  std::string name_of(const Key&) const;
  std::string place(const Key& key, const Owner& owner) const { return places(key) + owner.hex(); }
  // Return the keys of the last run, and of the start for --once-per. They are outside of the
  // prefixes of all locks.
  std::string last_key(const std::string& name) const;
  std::string start_key(const std::string& name) const;

  // Return the grant of a lease. If this process does not know the grant, they ask the store.
  // nullptr: there is no such grant. held() also returns nullptr if only the lock-delay still runs.
  Result<Held*> held(const Lease&, std::string_view what, Deadline until);
  Result<Held*> known(const Lease&, std::string_view what, Deadline until);
  Held& keep(const Lease&, Held);
  void let_go(const Lease& lease) { held_.erase({lease.key.text(), lease.owner}); }
  static std::int64_t revision(const Held& h) { return static_cast<std::int64_t>(h.token); }
  void watch_own(Held&);
  void receive(Held&);
  void await_watch(const Held&);
  static Lease kept(const Lease&, const Held&, const NewLease& by, Duration ttl);
  // Errc::usage: a newer dlock wrote one of the records.
  Result<Contenders> contenders_of(const KeyValues&, std::string_view prefix) const;
  Result<Contenders> read(std::string_view what, const Key&, Deadline until);
  // Adds the operation that records the last run to the operations that release or detach the lock.
  void add_last_run(Parts& operations, const Lease&, const Held&, const RunEnd&) const;
  // Returns how much is left of a lease without its lock-delay. Zero or less: the lock has ended.
  Result<Duration> rest(std::int64_t lease, Duration lock_delay, Deadline until);
  // Reads the key, passes it to `then`, and applies the operations that `then` returns (nullopt:
  // nothing to do). If the key was changed in between, it tries again. False: the condition `grant`
  // is not true.
  using Then = std::function<Result<std::optional<Parts>>(const KeyValues&)>;
  Result<bool> change(std::string_view what, const Json& grant, const std::string& key,
                      Deadline until, const Then& then);

  const Traits& traits_;
  Client client_;
  std::map<HeldId, Held> held_;
  UnansweredReleases unanswered_;
  Fd alarm_;  // readable: a timer or watch of a held lock needs attention
  std::uint64_t wakeups_ = 0;
};

}  // namespace dlock::etcd
