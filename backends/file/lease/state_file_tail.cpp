// SPDX-License-Identifier: Apache-2.0
// Reads and writes the tail of a long queue in the file.
#include <algorithm>
#include <cerrno>
#include "file/lease/state_file.hpp"
#include "file/sys_error.hpp"

namespace dlock::file {

// Adds waiters of the tail to the record. With `all`, adds every waiter, and the lines stay in the
// tail. Otherwise adds the first waiters, whose lines will become lines of the slot. `most_bytes`:
// how much of the tail to read. False: the lines were overwritten or are damaged.
bool StateFile::read_tail(KeyRecord& r, std::size_t most_bytes, bool all) {
  Tail& tail = r.tail;
  if (tail.empty() || !loaded_.empty()) return true;
  std::string& text = page_[0];
  const std::uint64_t size = std::min<std::uint64_t>(tail.end - tail.begin, most_bytes);
  text.resize(size);
  if (pread_all(file_.get(), text.data(), size, tail_at + static_cast<off_t>(tail.begin)) !=
      static_cast<ssize_t>(size))
    return false;

  auto& waiters = r.state.waiters;
  const std::size_t before = waiters.size();
  const auto undo = [&] {
    waiters.resize(before);
    return false;
  };
  std::vector<TailLine> lines;
  auto gone = tail.gone.begin();
  std::string_view rest = text;
  std::uint64_t ticket = waiters.empty() ? 0 : waiters.back().ticket;
  while (lines.size() < tail.lines) {
    const std::uint64_t at = tail.begin + (size - rest.size());
    if (!all && !has_room(waiters.size() - before, at - tail.begin, limits_)) break;
    auto w = parse_tail_line(rest);
    if (!w && !all && !lines.empty()) break;  // the end of what was read
    if (!w || w->ticket <= ticket || w->ticket >= r.state.next_ticket) return undo();
    ticket = w->ticket;
    lines.push_back({ticket, at, tail.begin + (size - rest.size())});
    if (gone != tail.gone.end() && *gone == ticket) ++gone;
    else waiters.push_back(std::move(*w));
  }
  if (all) {
    if (!rest.empty() || gone != tail.gone.end()) return undo();
    loaded_ = std::move(lines);
    return true;
  }
  tail.begin = lines.back().end;
  tail.lines -= lines.size();
  tail.gone.erase(tail.gone.begin(), gone);
  if (tail.lines == tail.gone.size()) tail = {};
  return true;
}

// Adds the next waiters of the tail or, when there are none, KeyRecord::joins. False: it added
// nothing.
Result<bool> StateFile::load_more(KeyRecord& r) {
  constexpr std::size_t at_once = 4096;
  if (!loaded_.empty()) return false;
  const std::size_t before = r.state.waiters.size();
  while (!r.tail.empty() && r.state.waiters.size() == before) {
    if (read_tail(r, at_once, false) || read_tail(r, tail_size, false)) continue;
    TRY_VOID(tolerate_damage());
    r.tail = {};  // no waiter has survived
  }
  if (r.joins && r.state.waiters.size() == before) {
    r.state.waiters.push_back(std::move(*r.joins));
    r.joins.reset();
  }
  return r.state.waiters.size() > before;
}

std::optional<std::uint64_t> StateFile::last_in_tail(const KeyRecord& r, Micros now) const {
  LockState first = r.state;
  (void)first.invite(now, 0);
  if (first.waiters.empty() || first.waiters.back().invited) return std::nullopt;
  const Tail& tail = r.tail;
  constexpr std::uint64_t part = 4096;
  if (tail.empty() || !loaded_.empty() || !has_room(tail_, limits_) || tail.end + part > tail_size)
    return std::nullopt;
  std::string text(std::min(part, tail.end - tail.begin), '\0');
  const auto at = tail_at + static_cast<off_t>(tail.end - text.size());
  if (pread_all(file_.get(), text.data(), text.size(), at) != static_cast<ssize_t>(text.size()))
    return std::nullopt;
  for (std::string_view rest = text; rest.size() > 1;) {
    const std::size_t begin = rest.rfind('\n', rest.size() - 2) + 1;  // 0: there is no newline
    std::string_view line = rest.substr(begin);
    const auto w = parse_tail_line(line);
    if (!w) break;  // the text begins inside a line
    if (!std::ranges::binary_search(tail.gone, w->ticket)) return w->ticket;
    rest = rest.substr(0, begin);
  }
  return std::nullopt;
}

// Stops at a waiter that may not run, because no waiter behind it may run either.
Result<std::vector<std::uint64_t>> StateFile::invite(KeyRecord& r, Micros now, Micros claim) {
  std::vector<std::uint64_t> invited;
  for (;;) {
    for (const std::uint64_t ticket : r.state.invite(now, claim)) invited.push_back(ticket);
    if (!r.state.waiters.empty() && !r.state.waiters.back().invited) return invited;
    TRY(more, load_more(r));
    if (!more) return invited;
  }
}

Result<void> StateFile::load_tail(KeyRecord& r) {
  if (read_tail(r, tail_size, true)) return {};
  TRY_VOID(tolerate_damage());
  r.tail = {};
  return {};
}

// If the file size limit allows no tail, and the file has no tail yet, all waiters go into the
// slot.
Written StateFile::planned(const KeyRecord& record, bool joined) const {
  Written next = plan(record, tail_, loaded_, limits_, joined);
  if (next.lines.empty() || !tail_.empty() || fits_under_limit(path_, tail_at + next.tail.end))
    return next;
  QueueLimits all = limits_;
  all.waiters = all.bytes = SIZE_MAX;
  return plan(record, tail_, loaded_, all, joined);
}

// Call it before writing the slot that says where the tail is.
Result<void> StateFile::write_tail(const Written& next) const {
  if (next.lines.empty()) return {};
  TRY_VOID(fits_under_limit(path_, tail_at + next.tail.end));
  const ssize_t n = pwrite_all(file_.get(), next.lines, tail_at + static_cast<off_t>(next.at));
  if (n < 0) return fail_errno("write", path_, errno);
  if (static_cast<std::size_t>(n) != next.lines.size()) return fail_errno("write", path_, ENOSPC);
  return {};
}

}  // namespace dlock::file
