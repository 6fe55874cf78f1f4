// SPDX-License-Identifier: Apache-2.0
#include "file/lease/state_codec.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <climits>
#include "pure/random.hpp"

using namespace dlock;
using namespace dlock::file;
using namespace dlock::test;

namespace {

Owner random_owner(Random& random) {
  Owner o;
  for (std::uint8_t& b : o.bytes) b = static_cast<std::uint8_t>(random.below(256));
  return o;
}
Mode random_mode(Random& random) {
  constexpr Mode modes[] = {Mode::exclusive, Mode::shared, Mode::permit};
  return modes[random.below(3)];
}
// Bounds as often as anything between them.
Micros random_time(Random& random) {
  constexpr Micros edges[] = {0, 1, never - 1, never};
  return random.below(2) ? edges[random.below(4)]
                         : static_cast<Micros>(random.below(1U << 30)) << 20;
}

KeyRecord random_record(Random& random) {
  KeyRecord r;
  r.boot = "b0-" + std::to_string(random.below(1000));
  r.key = std::string("k \n%/") + std::to_string(random.below(1000)) + "\xc3\xa9";
  r.state.fence = random.below(4) ? random.below(1U << 20) : UINT64_MAX - 1;
  r.state.next_ticket = 1 + random.below(1U << 20);
  for (auto n = random.below(4); n > 0; --n)
    r.state.holders.push_back({random_owner(random), random_mode(random), random.below(100),
                               1 + random.below(100), random.below(2) ? UINT_MAX : 3,
                               random_time(random), random_time(random), random_time(random),
                               random.below(2) ? "" : "db3,41223"});
  for (auto n = random.below(4); n > 0; --n)
    r.state.waiters.push_back({random_owner(random), random_mode(random),
                               random.below(2) ? UINT_MAX : 1, random.below(100),
                               random_time(random), random.below(2) == 1,
                               random.below(2) ? "" : "db4,7"});
  if (random.below(2)) {
    r.tail = {random.below(1000), 5000 + random.below(1000), 4, {}};
    for (auto n = random.below(4); n > 0; --n) r.tail.gone.push_back(10 - n);
  }
  return r;
}

std::string written(const KeyRecord& r, std::uint64_t seq) {
  std::string out;
  encode(r, r.state.waiters.size(), r.tail, seq, out);
  return out;
}

KeyRecord small_record() {
  KeyRecord r;
  r.boot = "b";
  r.key = "k";
  r.state.fence = 7;
  r.state.next_ticket = 9;
  r.state.holders.push_back({Owner{}, Mode::permit, 4, 7, 2, 1, never, 5, "who"});
  r.state.waiters.push_back({Owner{}, Mode::shared, 3, 8, never, true, ""});
  return r;
}

const std::string zeros(32, '0');

}  // namespace

TEST_CASE("the text of a record") {
  const std::string text = written(small_record(), 12);
  REQUIRE(text.size() > header_size);
  CHECK(text.substr(0, 37) == "dlock1 00000000000000000012 00000110 ");
  CHECK(text[header_size - 1] == '\n');
  CHECK(text.substr(header_size) ==
        "K b 7 9 k\nH " + zeros + " P 4 7 2 1 - 5 who\nW " + zeros + " S 3 8 - 1 -\n");
}

TEST_CASE("records survive encoding, at every bound") {
  Random random(seed());
  for (int i = 0; i < 2000; ++i) {
    const KeyRecord r = random_record(random);
    const std::uint64_t seq = random.below(2) ? random.below(1000) : UINT64_MAX;
    const std::string text = written(r, seq);
    const Header h = parse_header(std::string_view(text).substr(0, header_size));
    REQUIRE(h.kind == Header::Kind::good);
    CHECK(h.seq == seq);
    CHECK(h.overdue == r.state.oldest_invitation_ends());
    const std::string_view body = std::string_view(text).substr(header_size);
    CHECK(h.length == body.size());
    CHECK(h.checksum == checksum(body, seq));
    const auto again = decode(body);
    REQUIRE(again);
    CHECK(again->state == r.state);
    CHECK(again->tail == r.tail);
    CHECK(again->boot == r.boot);
    CHECK(again->key == r.key);
  }
}

TEST_CASE("encode reuses a string and leaves nothing of its old content") {
  std::string out = written(small_record(), 1);
  KeyRecord shorter;
  shorter.boot = "b";
  shorter.key = "k";
  encode(shorter, 0, {}, 2, out);
  CHECK(out == written(shorter, 2));
}

TEST_CASE("headers: empty, damaged and of another version are distinguished") {
  using Kind = Header::Kind;
  const std::string good = written(small_record(), 1).substr(0, header_size);
  CHECK(parse_header("").kind == Kind::empty);
  CHECK(parse_header(std::string(header_size, '\0')).kind == Kind::empty);
  CHECK(parse_header("dlock2 whatever").kind == Kind::other_version);
  CHECK(parse_header("dlock12").kind == Kind::other_version);
  CHECK(parse_header("dlock").kind == Kind::damaged);
  CHECK(parse_header("dlockx").kind == Kind::damaged);
  CHECK(layout_of("dlock12 whatever") == "12");
  // "dlock1" can be the beginning of another version's
  for (std::size_t n = 1; n < header_size; ++n)
    CHECK(parse_header(good.substr(0, n)).kind == (n == 6 ? Kind::other_version : Kind::damaged));
  for (std::size_t n = 1; n < header_size; ++n) {  // a write that was cut
    std::string cut = good;
    std::fill(cut.begin() + static_cast<std::ptrdiff_t>(n), cut.end(), '\0');
    CHECK(parse_header(cut).kind == Kind::damaged);
  }
  for (const std::size_t at : {7U, 26U, 28U, 37U, 54U, 79U}) {  // the ends of each field
    std::string bad = good;
    bad[at] = ' ';
    INFO(at);
    CHECK(parse_header(bad).kind == Kind::damaged);
  }
}

TEST_CASE("each changed byte and each cut changes the checksum") {
  const std::string text = written(small_record(), 5);
  const std::string body = text.substr(header_size);
  const auto sum = checksum(body, 5);
  CHECK(checksum(body, 6) != sum);
  for (std::size_t i = 0; i < body.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = body;
      bad[i] = static_cast<char>(bad[i] ^ 1 << bit);
      CHECK(checksum(bad, 5) != sum);
    }
    CHECK(checksum(body.substr(0, i), 5) != sum);
  }
}

TEST_CASE("a body of another version is refused as a whole") {
  const std::string start = "K b 7 9 k\n", holder = "H " + zeros + " X 4 7 2 1 - 5 who\n";
  REQUIRE(decode(start + holder));
  const auto refused = [](const std::string& bad) {
    INFO(bad);
    CHECK_FALSE(decode(bad));
  };
  for (const char* bad :
       {"", "K", "K b 7 9 k", "Q b 7 9 k\n", "K b 7 9\n", "K  b 7 9 k\n", "K b -7 9 k\n",
        "K b 7x 9 k\n", "K b 7 0 k\n", "K b 18446744073709551615 9 k\n",
        "K b 18446744073709551616 9 k\n", "K b 7 9 %zz\n"})
    refused(bad);
  for (const char* bad :
       {"H\n", "\n", "Q 5 5 1\n", "Q 9 5 1\n", "Q 0 16777217 1\n", "Q 0 500 0\n", "Q 0 500 501\n",
        "Q 0 500\n", "Q 0 500 2 1\n", "Q 0 500 2\nQ 0 500 2\n", "Q 0 500 2\nG 1\nG 2\n",
        "Q 0 500 3\nG 2\nG 2\n", "Q 0 500 3\nG x\n", "G 1\n"})
    refused(start + bad);
  for (const std::string& bad :
       {"Z " + zeros + " X 4 7 2 1 - 5 who\n", "H " + zeros + " Q 4 7 2 1 - 5 who\n",
        "H " + zeros.substr(1) + " X 4 7 2 1 - 5 who\n",
        "H " + zeros.substr(1) + "G X 4 7 2 1 - 5 who\n",
        "H " + zeros + " X 4 7 4294967296 1 - 5 who\n", "H " + zeros + " X 4 7 2 1 - 5\n",
        "H " + zeros + " X 4 7 2 1 - 5 who more\n",
        "H " + zeros + " X 4 7 2 9223372036854775807 - 5 who\n", "W " + zeros + " X 4 7 - 2 who\n",
        "Q 0 500 2\nW " + zeros + " X 4 7 - 0 who\n", holder + "trailing"})
    refused(start + bad);
  const std::string body = start + holder;
  for (std::size_t n = 0; n < body.size(); ++n)
    // a whole line less is found by the checksum
    if (n != start.size()) CHECK_FALSE(decode(body.substr(0, n)));
}

TEST_CASE("a line of the tail, and each byte of it that is changed or missing") {
  std::string text = "before";
  const LockState::Waiter w{Owner{}, Mode::permit, 4, 7, never, false, "who"};
  encode_tail_line(w, text);
  CHECK(text.substr(6 + 16) == " W " + zeros + " P 4 7 - 0 who\n");
  const std::string line = text.substr(6), two = line + line;
  std::string_view rest = two;
  CHECK(parse_tail_line(rest) == w);
  CHECK(parse_tail_line(rest) == w);
  CHECK(rest.empty());
  CHECK_FALSE(parse_tail_line(rest));
  for (std::size_t i = 0; i < line.size(); ++i) {
    rest = std::string_view{line}.substr(0, i);
    CHECK_FALSE(parse_tail_line(rest));
    std::string bad = line;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    rest = bad;
    CHECK_FALSE(parse_tail_line(rest));
  }
  // What belongs into a slot.
  for (const LockState::Waiter& other :
       {LockState::Waiter{Owner{}, Mode::shared, 4, 7, never, true, ""},
        LockState::Waiter{Owner{}, Mode::shared, 4, 7, 5, false, ""}}) {
    text.clear();
    encode_tail_line(other, text);
    rest = text;
    CHECK_FALSE(parse_tail_line(rest));
  }
}

TEST_CASE("untrusted text in a record cannot make a line of its own") {
  KeyRecord r = small_record();
  r.state.holders[0].meta = "evil\nH x";
  const std::string text = written(r, 1);
  const auto again = decode(std::string_view(text).substr(header_size));
  REQUIRE(again);
  CHECK(again->state.holders.size() == 1);
  CHECK(again->state.holders[0].meta.find('\n') == std::string::npos);
}
