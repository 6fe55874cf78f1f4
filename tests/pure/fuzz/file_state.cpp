// SPDX-License-Identifier: Apache-2.0
// The state of a file lease, which every member of a shared directory's group can write, and
// /proc/locks.
#include <algorithm>
#include <string>
#include "core/text.hpp"
#include "file/lease/state_codec.hpp"
#include "file/lock_table.hpp"
#include "store/key_view.hpp"
#include "targets.hpp"

namespace dlock::fuzz {
namespace {

// What a contender does with a record that it has read, at a time that the record does not choose.
void use(LockState state) {
  for (const Micros now : {Micros{0}, Micros{1} << 40, never - 1}) {
    LockState s = state;
    (void)view(s, "k", now);
    (void)s.invite(now, 1'000'000);
    (void)s.free_at();
    const auto owner = Owner::parse("00112233445566778899aabbccddeeff");
    must(owner.has_value(), "the owner of this test");
    LockState::Acquisition ask{
        .owner = *owner, .ttl = 30'000'000, .delay = 1, .patience = 1'000'000};
    try {
      (void)s.acquire(ask, now);
    } catch (const std::overflow_error&) {
      // no greater token exists: a damaged record
    }
    (void)s.renew(*owner, 30'000'000, now);
    (void)s.release(*owner, now);
  }
}

// A description is one printable word; dlock writes other bytes, which only a damaged record can
// have, as percent signs and digits.
std::string written(const std::string& who) {
  const auto in_word = [](char c) { return c > ' ' && c < 0x7f; };
  return std::all_of(who.begin(), who.end(), in_word) ? who : percent_encode(who);
}

void file_state(std::string_view text) {
  const std::string_view first = text.substr(0, file::header_size);
  const file::Header header = file::parse_header(first);
  if (header.kind == file::Header::Kind::other_version) (void)file::layout_of(first);
  if (auto record = file::decode(text)) {
    for (auto& h : record->state.holders) h.meta = written(h.meta);
    for (auto& w : record->state.waiters) w.meta = written(w.meta);
    std::string slot;
    file::encode(*record, record->state.waiters.size(), record->tail, 7, slot);
    const file::Header written =
        file::parse_header(std::string_view{slot}.substr(0, file::header_size));
    must(written.kind == file::Header::Kind::good, "a header that dlock wrote is not good");
    const std::string_view body = std::string_view{slot}.substr(file::header_size);
    must(body.size() == written.length, "the length in the header is not the body's");
    must(file::checksum(body, 7) == written.checksum, "the checksum is not the body's");
    const auto again = file::decode(body);
    must(again.has_value(), "a body that dlock wrote cannot be read");
    must(again->state == record->state && again->key == record->key &&
             again->boot == record->boot && again->tail == record->tail,
         "a body that dlock wrote is read as another one");
    use(record->state);
  }
}

void file_tail(std::string_view text) {
  while (auto w = file::parse_tail_line(text)) {
    w->meta = written(w->meta);
    std::string line;
    file::encode_tail_line(*w, line);
    std::string_view rest = line;
    const auto again = file::parse_tail_line(rest);
    must(again == w && rest.empty(), "a line that dlock wrote is read as another one");
  }
}

void lock_table(std::string_view text) {
  for (const auto& entry : file::parse_lock_table(text, 0x801, 131)) (void)entry.pid;
}

const Added file_targets[] = {
    {"file_state", file_state}, {"file_tail", file_tail}, {"lock_table", lock_table}};

}  // namespace
}  // namespace dlock::fuzz
