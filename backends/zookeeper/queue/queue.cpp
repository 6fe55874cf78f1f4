// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/queue/queue.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include "common/record_reader.hpp"
#include "core/number.hpp"
#include "core/text.hpp"

namespace dlock::zookeeper {
namespace {

struct Tag {
  std::string_view text;
  Mode mode;
  bool foreign = false;
};
constexpr std::array<Tag, 4> sequential_tags{{{"-__SEMA__-__WRIT__", Mode::permit},
                                              {"-__WRIT__", Mode::exclusive},
                                              {"-__DLCK__-__READ__", Mode::shared},
                                              {"-__READ__", Mode::shared, true}}};
constexpr std::string_view curator_tag = "-lock-", kazoo_tag = "__lock__", slot_prefix = "slot-",
                           clock_prefix = "now-";

std::string uuid(const Owner& owner) {
  const std::string hex = owner.hex();
  const std::string_view h = hex;
  return fmt::format("{}-{}-{}-{}-{}", h.substr(0, 8), h.substr(8, 4), h.substr(12, 4),
                     h.substr(16, 4), h.substr(20));
}

bool digits(std::string_view text) noexcept {
  return !text.empty() && std::ranges::all_of(text, is_digit);
}

template <class T>
std::optional<T> unsigned_digits(std::string_view text) {
  return digits(text) ? parse_number<T>(text) : std::nullopt;
}

// Parses the server's counter in the form %010d: 10 digits, or a sign and 9 or 10 digits.
std::optional<std::int32_t> parse_counter(std::string_view text) {
  const bool negative = text.starts_with('-');
  const std::string_view size = text.substr(negative ? 1 : 0);
  const auto value = unsigned_digits<std::int64_t>(size);
  if (!value || (size.size() != 10 && !(negative && size.size() == 9))) return std::nullopt;
  if (*value > INT32_MAX + std::int64_t{negative}) return std::nullopt;
  return static_cast<std::int32_t>(negative ? -*value : *value);
}

bool exclude(const Member& a, const Member& b) noexcept {
  const auto either = [&](Mode m) { return a.mode == m || b.mode == m; };
  return either(Mode::exclusive) || (either(Mode::permit) && (a.foreign || b.foreign));
}

}  // namespace

std::optional<Dialect> dialect_of(std::string_view recipe) noexcept {
  if (recipe == "ephemeral") return std::nullopt;
  return recipe == "curator" ? Dialect::curator
         : recipe == "kazoo" ? Dialect::kazoo
                             : Dialect::sequential;
}

std::string guid_of(Dialect d, const Owner& owner) {
  return d == Dialect::kazoo ? owner.hex() : "_c_" + uuid(owner);
}

std::string node_prefix(Dialect d, const Owner& owner, Mode mode) {
  const std::string guid = guid_of(d, owner);
  switch (d) {
    case Dialect::curator: return guid + std::string{curator_tag};
    case Dialect::kazoo: return guid + std::string{kazoo_tag};
    case Dialect::sequential: break;
  }
  for (const Tag& tag : sequential_tags)
    if (tag.mode == mode) return guid + std::string{tag.text};
  return guid;
}

bool is_sequential(std::string_view name) noexcept {
  return name.size() >= 10 && digits(name.substr(name.size() - 10));
}

std::optional<Member> parse_member(Dialect d, std::string_view name) {
  const auto member = [&](std::string_view tag, Mode mode,
                          bool foreign = false) -> std::optional<Member> {
    const std::size_t at = name.rfind(tag);
    if (at == name.npos) return std::nullopt;
    const auto number = parse_counter(name.substr(at + tag.size()));
    if (!number) return std::nullopt;
    return Member{std::string{name}, *number, mode, foreign};
  };
  if (d == Dialect::curator) return member(curator_tag, Mode::exclusive);
  if (d == Dialect::kazoo) return member(kazoo_tag, Mode::exclusive);
  for (const Tag& tag : sequential_tags)
    if (auto m = member(tag.text, tag.mode, tag.foreign)) return m;
  return std::nullopt;
}

std::string slot_node(unsigned slot) { return fmt::format("{}{}", slot_prefix, slot); }
std::optional<unsigned> parse_slot(std::string_view name) {
  if (!name.starts_with(slot_prefix)) return std::nullopt;
  return unsigned_digits<unsigned>(name.substr(slot_prefix.size()));
}

std::string clock_node() { return fmt::format("{}{}-", clock_prefix, Owner::random().hex()); }
bool is_helper_node(Dialect d, std::string_view name) {
  return d == Dialect::sequential &&
         (parse_slot(name) || name == start_node || name.starts_with(clock_prefix));
}

Directory Directory::of(Dialect dialect, const std::vector<std::string>& names) {
  Directory d;
  const bool own = dialect == Dialect::sequential;
  for (const std::string& name : names) {
    if (auto slot = own ? parse_slot(name) : std::nullopt) {
      d.slots.push_back(*slot);
    } else if (auto member = parse_member(dialect, name)) {
      d.queue.push_back(std::move(*member));
      // A sequential node that is not in our queue is of another dialect. A node without a number
      // may be the directory of another key.
    } else if (is_sequential(name)) {
      d.foreign = name;
    }
  }
  if (d.queue.empty()) return d;
  // Sort nodes by their distance from one origin, which is a total order whatever the numbers are.
  // If a writer also takes a read lock, Curator gives both nodes the same number.
  const std::int32_t origin = d.queue.front().number;
  const auto distance = [origin](const Member& m) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(m.number) -
                                     static_cast<std::uint32_t>(origin));
  };
  std::ranges::sort(d.queue, [&](const Member& a, const Member& b) {
    if (a.number != b.number) return distance(a) < distance(b);
    return (a.mode == Mode::exclusive) != (b.mode == Mode::exclusive) ? a.mode == Mode::exclusive
                                                                      : a.name < b.name;
  });
  return d;
}

const Member* Directory::find(std::string_view name) const {
  const auto at = std::ranges::find(queue, name, &Member::name);
  return at == queue.end() ? nullptr : &*at;
}

// dlock's readers and permits may hold the lock together. For a permit, every contender before it
// counts toward the limit.
bool runs(const Directory& d, std::size_t at, unsigned limit) {
  const Member& me = d.queue[at];
  const auto end = d.queue.begin() + static_cast<std::ptrdiff_t>(at);
  if (std::any_of(d.queue.begin(), end, [&](const Member& m) { return exclude(m, me); }))
    return false;
  return me.mode != Mode::permit || at < limit;
}

Verdict decide(const Directory& d, std::string_view name, unsigned limit) {
  using What = Verdict::What;
  const Member* me = d.find(name);
  if (!me) return {What::missing};
  const auto at = static_cast<std::size_t>(me - d.queue.data());
  if (runs(d, at, limit)) return {What::run};

  Verdict v{What::wait_deletion};
  for (std::size_t i = 0; i < at; ++i) v.ahead += !runs(d, i, limit);
  v.in_the_way = d.queue.front().name;
  // Watch only the last contender before us that excludes us, so that a release wakes only one
  // waiter.
  std::size_t last = at, waits = at;
  for (std::size_t i = 0; i < at; ++i) {
    if (exclude(d.queue[i], *me)) last = i;
    if (d.queue[i].mode == Mode::permit && i >= limit) waits = i;
  }
  if (last != at) {
    v.watch = d.queue[last].name;
    return v;
  }
  // There is no room for a permit. The first permit without room watches the directory. Each later
  // permit watches the waiting permit before it.
  v.what = waits == at ? What::wait_room : What::wait_turn;
  v.watch = d.queue[waits == at ? at - 1 : waits].name;
  return v;
}

}  // namespace dlock::zookeeper
