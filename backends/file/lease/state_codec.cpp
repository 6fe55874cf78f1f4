// SPDX-License-Identifier: Apache-2.0
#include "file/lease/state_codec.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <cstring>
#include <iterator>
#include "common/record_reader.hpp"
#include "core/number.hpp"
#include "core/text.hpp"

namespace dlock::file {
namespace {

constexpr std::string_view magic = "dlock1 ";  // layout 1
constexpr std::string_view any_version = "dlock";
constexpr std::size_t check_digits = 16;
// columns of the header
constexpr std::size_t seq_at = 7, length_at = 28, checksum_at = 37, overdue_at = 54;

// ---- header: numbers of fixed width with leading zeros -----------------------------------------
template <class T>
bool get_fixed(std::string_view text, std::size_t at, std::size_t width, T& out,
               int base) noexcept {
  const auto value = parse_number<T>(text.substr(at, width), base);
  out = value.value_or(T{});
  return value.has_value();
}

// ---- body: lines of words, with one space between words ----------------------------------------
std::string time_text(Micros t) { return t == never ? "-" : std::to_string(t); }
// Identity::encode() is one printable word. Any other content is encoded, so that it cannot become
// a line of its own.
std::string who_text(const std::string& who) {
  const bool plain = std::ranges::all_of(who, [](char c) { return c > ' ' && c < 0x7f; });
  return who.empty() ? "-" : plain ? who : percent_encode(who);
}
std::string text_of(const LockState::Waiter& w) {
  return fmt::format("W {} {} {} {} {} {:d} {}\n", w.owner.hex(), static_cast<char>(w.mode),
                     w.limit, w.ticket, time_text(w.live_until), w.invited, who_text(w.meta));
}
// Reads the fields behind "W".
LockState::Waiter read_waiter(RecordReader& in) {
  LockState::Waiter w;
  w.owner = in.owner();
  w.mode = in.mode();
  w.limit = in.number<unsigned>();
  w.ticket = in.number();
  w.live_until = in.time();
  w.invited = in.number<unsigned>(1) == 1;
  w.meta = in.who();
  return w;
}
// Reads a number that is the last field of its line.
std::uint64_t last_number(RecordReader& in, std::uint64_t most) {
  return in.number<std::uint64_t>(most, '\n');
}

}  // namespace

Header parse_header(std::string_view text) noexcept {
  Header h;
  if (text.find_first_not_of('\0') == text.npos) return h;
  h.kind = Header::Kind::damaged;
  if (!text.starts_with(magic)) {
    // Only a write that was cut off leaves a NUL byte here: no other layout can begin so.
    if (text.starts_with(magic.substr(0, magic.size() - 1)) && text.size() >= magic.size() &&
        text[magic.size() - 1] == '\0')
      return h;
    // "dlock2 ..." is no damage: a newer dlock keeps locks here.
    if (text.starts_with(any_version) && text.size() > any_version.size() &&
        text[any_version.size()] >= '0' && text[any_version.size()] <= '9')
      h.kind = Header::Kind::other_version;
    return h;
  }
  if (text.size() < header_size || text[header_size - 1] != '\n') return h;
  if (get_fixed(text, seq_at, 20, h.seq, 10) && get_fixed(text, length_at, 8, h.length, 10) &&
      get_fixed(text, checksum_at, 16, h.checksum, 16) &&
      get_fixed(text, overdue_at, 20, h.overdue, 10))
    h.kind = Header::Kind::good;
  return h;
}

std::string_view layout_of(std::string_view header) noexcept {
  header.remove_prefix(any_version.size());
  return header.substr(0, std::min(header.find_first_not_of("0123456789"), header.size()));
}

std::uint64_t checksum(std::string_view body, std::uint64_t seq) noexcept {
  // For each eight bytes: xor, multiply by an odd constant, fold the high half down. The sum
  // detects cut and mixed writes. It does not protect against a user who may write to the file.
  constexpr std::uint64_t odd = 0x9FB21C651E98DF25u;
  std::uint64_t sum = (seq + 1) * odd ^ body.size();
  for (; body.size() >= 8; body.remove_prefix(8)) {
    std::uint64_t block = 0;
    std::memcpy(&block, body.data(), 8);
    sum = (sum ^ block) * odd;
    sum ^= sum >> 29;
  }
  std::uint64_t last = 0;
  std::memcpy(&last, body.data(), body.size());
  sum = (sum ^ last) * odd;
  return sum ^ sum >> 32;
}

void encode(const KeyRecord& r, std::size_t in_slot, const Tail& tail, std::uint64_t seq,
            std::string& out) {
  const LockState& s = r.state;
  out.assign(header_size, ' ');
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "K {} {} {} {}\n", r.boot, s.fence, s.next_ticket, percent_encode(r.key));
  for (const auto& h : s.holders)
    fmt::format_to(to, "H {} {} {} {} {} {} {} {} {}\n", h.owner.hex(), static_cast<char>(h.mode),
                   h.ticket, h.token, h.slot, time_text(h.since), time_text(h.deadline), h.delay,
                   who_text(h.meta));
  for (std::size_t i = 0; i < in_slot; ++i) out += text_of(s.waiters[i]);
  if (!tail.empty()) {
    fmt::format_to(to, "Q {} {} {}\n", tail.begin, tail.end, tail.lines);
    for (const std::uint64_t ticket : tail.gone) fmt::format_to(to, "G {}\n", ticket);
  }
  const std::string_view body = std::string_view{out}.substr(header_size);
  fmt::format_to(out.begin(), "{}{:020} {:08} {:016x} {:020}", magic, seq, body.size(),
                 checksum(body, seq), s.oldest_invitation_ends());
  out[header_size - 1] = '\n';
}

std::optional<KeyRecord> decode(std::string_view body) {
  const auto lines = static_cast<std::size_t>(std::ranges::count(body, '\n'));
  RecordReader in(body);
  KeyRecord r;
  LockState& s = r.state;
  if (in.field() != "K") return std::nullopt;
  r.boot = in.field();
  s.fence = in.number();
  s.next_ticket = in.number();
  auto key = percent_decode(in.field('\n'));
  if (!in.good() || !key || s.fence == UINT64_MAX || s.next_ticket == 0) return std::nullopt;
  r.key = std::move(*key);
  while (in.good() && !in.done()) {
    const std::string_view kind = in.field();
    if (kind == "H") {
      auto& h = s.holders.emplace_back();
      h.owner = in.owner();
      h.mode = in.mode();
      h.ticket = in.number();
      h.token = in.number();
      h.slot = in.number<unsigned>();
      h.since = in.time();
      h.deadline = in.time();
      h.delay = in.number<Micros>(never);
      h.meta = in.who();
    } else if (kind == "W" && r.tail.empty()) {
      if (s.waiters.empty()) s.waiters.reserve(lines + 1);
      s.waiters.push_back(read_waiter(in));
    } else if (kind == "Q" && r.tail.empty()) {
      Tail& t = r.tail;
      t.begin = in.number(tail_size);
      t.end = in.number(tail_size);
      t.lines = last_number(in, t.end);
      if (t.end <= t.begin || t.lines == 0) return std::nullopt;
    } else if (kind == "G" && r.tail.gone.size() + 1 < r.tail.lines) {
      const std::uint64_t ticket = last_number(in, UINT64_MAX);
      if (!r.tail.gone.empty() && ticket <= r.tail.gone.back()) return std::nullopt;
      r.tail.gone.push_back(ticket);
    } else {
      return std::nullopt;
    }
  }
  return in.good() ? std::optional{std::move(r)} : std::nullopt;
}

void encode_tail_line(const LockState::Waiter& w, std::string& out) {
  const std::string line = text_of(w);
  fmt::format_to(std::back_inserter(out), "{:016x} {}", checksum(line, 0), line);
}

std::optional<LockState::Waiter> parse_tail_line(std::string_view& text) {
  const std::size_t size = text.find('\n') + 1;  // 0: there is no newline
  std::string_view line = text.substr(0, size);
  std::uint64_t check = 0;
  if (size <= check_digits || line[check_digits] != ' ' ||
      !get_fixed(line, 0, check_digits, check, 16))
    return std::nullopt;
  line.remove_prefix(check_digits + 1);
  if (checksum(line, 0) != check) return std::nullopt;
  RecordReader in(line);
  const bool waiter = in.field() == "W";
  std::optional<LockState::Waiter> w = read_waiter(in);
  if (!waiter || !in.good() || !in.done() || w->invited || w->live_until != never)
    return std::nullopt;
  text.remove_prefix(size);
  return w;
}

}  // namespace dlock::file
