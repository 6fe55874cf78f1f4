// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "redlock/redlock_backend.hpp"

namespace dlock::redlock {

// One attempt to take the lock, under one owner: the two phases, the list of masters, and the undo
// after a failure.
class OneAttempt {
 public:
  OneAttempt(RedlockBackend&, const Request&, const Owner&);
  Attempt run();

 private:
  void ask_for_votes();
  void insist_if_greatest();
  Result<void> judge_lists();
  std::optional<Lease> confirm();
  bool change_list(FencingToken);
  void tell_list(FencingToken);
  void undo();
  void explain();

  std::optional<Ask> vote_request(std::size_t) const;
  Votes ask_for_list(FencingToken, bool mark, bool (*whom)(const OneAttempt&, std::size_t));
  bool is_enough(const Votes&, bool (*yes)(const Vote&)) const;
  bool known_here(const Vote&) const;
  std::string_view known_list(const Vote&) const;
  void look();

  RedlockBackend& backend_;
  Masters& masters_;
  const Request& request_;
  const Owner owner_;
  const std::string vote_, list_;
  const Names at_;
  const std::size_t majority_;
  const Duration patience_;
  const Deadline sent_, phase_1_ends_;
  Votes votes_;
  std::vector<std::optional<Seen>> seen_;
  std::vector<bool> kept_;  // of another list that is known somewhere: each of them must vote
  bool changes_ = false;    // there is such a list
  Leader leader_;
  bool before_ = false;  // a grant of this same owner is in force, or may be
  Attempt made_;
};

}  // namespace dlock::redlock
