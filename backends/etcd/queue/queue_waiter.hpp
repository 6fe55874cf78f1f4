// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include "etcd/queue/queue_backend.hpp"

namespace dlock::etcd {

// One contender. In one transaction it creates its key and lists the keys before it. If it must
// wait, it watches the key or prefix that the Verdict names, and reads the queue again when the
// watch reports a change. Every ttl/3 it keeps its place alive and reads the queue, even if the
// watch has reported nothing.
//
// Interleavings:
// 1. The enqueue got no reply. The next step reads the key. If the key exists with the lease of the
//    enqueue, the place is ours. If not, the waiter first revokes this lease, so that etcd refuses
//    a late enqueue. Then it enqueues with another lease.
// 2. The predecessor's key is deleted after this contender has listed the keys, and before its
//    watch is set. The watch begins after the revision of the list, so it reports the deletion.
// 3. Our key is gone, because its lease has ended or an operator removed the key. Then the waiter
//    enqueues again, at the end.
// 4. Two permits see the same free slot. Each claim names the revision of the list that it used. So
//    etcd refuses the second claim, and the waiter of that claim reads the queue again.
// 5. Two connections use the same owner, so they share one key. To prove that it has the lock, each
//    connection moves the key to a lease of its own, but only if the key still has the lease that
//    this connection saw last.
class QueueWaiter final : public Waiter {
 public:
  QueueWaiter(QueueBackend& backend, Request request)
      : backend_(backend),
        request_(std::move(request)),
        prefix_(backend.places(request_.key)),
        key_(backend.place(request_.key, request_.owner)) {}
  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  enum class Scope { all, newest };              // which of the keys before ours to read
  using Step = Result<std::optional<Progress>>;  // nullopt: go on
  static Step go_on() { return std::optional<Progress>{}; }

  Step enter(Deadline until);
  Result<void> settle(Deadline until);
  Step read_queue(Scope, bool with_proof, Deadline until);
  Step judge(const TxnAnswer&, const KeyValues& before, Scope, Deadline until);
  Step claim(Deadline until);
  Result<Progress> give_up(std::string why);
  Result<void> keep_place(Deadline until);
  void watch();
  bool wait_for_watch(const Wait&);  // true: a watched key has changed
  Progress granted();
  Progress waiting() const { return Waiting{ahead_, holder_, {}, sent_at_}; }
  bool proven() const noexcept;
  bool one_decides() const noexcept { return request_.mode == Mode::exclusive; }
  void forget_place();

  QueueBackend& backend_;
  const Request request_;
  const std::string prefix_, key_;
  std::int64_t revision_ = 0;   // our key's create revision; 0: we know of no key of ours
  NewLease lease_;              // the newest lease that our key had, or was to get
  bool lasts_ = false;          // lease_ is long enough to include the lock-delay
  std::int64_t attached_ = 0;   // the lease that our key was last seen with
  NewLease unanswered_;         // the lease of an enqueue without a reply
  std::int64_t last_read_ = 0;  // revision of the last list
  Contenders before_;           // the contenders before us in the last list
  unsigned free_slot_ = 0;      // the lowest free slot in the last list
  Record record_;
  Verdict verdict_{Verdict::What::run};
  std::optional<Watch> watch_;
  std::string watched_;
  Deadline watched_from_{};
  Deadline touch_{};    // when to keep the place alive and read the queue again
  Deadline sent_at_{};  // when the newest list in this poll was requested
  std::size_t ahead_ = 0;
  std::optional<HolderView> holder_;
  bool granted_ = false, read_again_ = false;
};

}  // namespace dlock::etcd
