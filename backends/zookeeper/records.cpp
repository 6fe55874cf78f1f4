// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/records.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "common/exchange.hpp"
#include "common/record_reader.hpp"
#include "core/number.hpp"

namespace dlock::zookeeper {
namespace {

std::string_view field(std::string_view& rest) { return next_part(rest, ' '); }

std::string or_dash(const std::optional<unsigned>& n) {
  return n ? fmt::format_int(*n).str() : "-";
}

std::string request_to_stop(FencingToken token, bool names_recur) {
  return names_recur ? fmt::format("{} {}", revoke_mark, token) : std::string{revoke_mark};
}

// Returns dlock's record in data that may begin with a request to stop.
std::string_view record_in(std::string_view data) {
  if (!data.starts_with(revoke_mark)) return data;
  const auto before = data.find(" dlock1 ");
  return before == std::string_view::npos ? std::string_view{} : data.substr(before + 1);
}

constexpr std::string_view run_item = "&run=";

std::string run_text(const std::optional<NodeRecord::Run>& run) {
  return run ? fmt::format("{}{}.{}", run_item, run->end.text(), run->lasted.count()) : "";
}

std::optional<NodeRecord::Run> parse_run(std::string_view text) {
  const auto at = text.rfind(run_item);
  if (at == text.npos) return std::nullopt;
  text.remove_prefix(at + run_item.size());
  const auto end = RunEnd::parse(next_part(text, '.'));
  const auto lasted = parse_number<std::int64_t>(text);
  if (!end || !lasted || *lasted < 0) return std::nullopt;
  return NodeRecord::Run{*end, Duration{*lasted}};
}

}  // namespace

NodeRecord NodeRecord::of(const Request& r) {
  NodeRecord record{r.owner.hex().substr(0, 8), r.ttl + r.lock_delay,
                    r.mode == Mode::permit ? std::optional{r.limit} : std::nullopt, std::nullopt,
                    r.identity};
  record.who.limit = 0;  // the record has its own field for the limit
  return record;
}

std::string NodeRecord::text() const {
  return fmt::format("dlock1 {} {} {} {} {}{}", id, timeout.count(), or_dash(limit), or_dash(slot),
                     who.encode(), run_text(run));
}

std::optional<NodeRecord> NodeRecord::parse(std::string_view text) {
  text = record_in(text);
  if (field(text) != "dlock1") return std::nullopt;
  NodeRecord r;
  r.id = field(text);
  const auto timeout = parse_number<std::int64_t>(field(text));
  if (r.id.empty() || !timeout) return std::nullopt;
  r.timeout = Duration{*timeout};
  r.limit = parse_number<unsigned>(field(text));
  r.slot = parse_number<unsigned>(field(text));
  r.run = parse_run(text);
  r.who = Identity::decode(text);
  r.who.limit = r.limit.value_or(0);
  return r;
}

std::string start_text(const std::optional<RunStart>& start) {
  return start ? fmt::format("dlock1 {} {}", start->at, start->until) : "";
}

Result<std::optional<RunStart>> parse_start(std::string_view text, const std::string& where) {
  if (text.empty()) return std::nullopt;
  if (const auto layout = newer_layout(text))
    return fail(newer_record("the note of --once-per", where, *layout));
  const bool known = field(text) == "dlock1";
  const auto at = parse_number<std::int64_t>(field(text)), until = parse_number<std::int64_t>(text);
  if (!known || !at || !until) return fail(malformed_reply("look", where));
  return RunStart{*at, *until};
}

std::string revoke_text(FencingToken token, bool names_recur, std::string_view data) {
  std::string text = request_to_stop(token, names_recur);
  if (NodeRecord::parse(data)) text.append(" ").append(record_in(data));
  return text;
}

bool is_revoked(std::string_view data, FencingToken token, bool names_recur) {
  const std::string request = request_to_stop(token, names_recur);
  return data == request || data.starts_with(request + " dlock1 ");
}

std::string Ticket::text() const {
  std::string out = fmt::format("{:016x}", static_cast<std::uint64_t>(id));
  for (const char c : password) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out + fmt::format("-{}-{}", timeout / std::chrono::milliseconds{1},
                           lock_delay / std::chrono::milliseconds{1});
}

std::optional<Ticket> Ticket::parse(std::string_view text) {
  Ticket t;
  std::string_view times = text.substr(std::min<std::size_t>(text.size(), 48));
  text = text.substr(0, 48);
  if (text.size() != 48) return std::nullopt;
  if (next_part(times, '-') != "") return std::nullopt;
  const auto timeout = parse_number<std::uint32_t>(next_part(times, '-'));
  const auto delay = parse_number<std::uint32_t>(times);
  if (!timeout || !delay || *delay >= *timeout) return std::nullopt;
  t.timeout = std::chrono::milliseconds{*timeout};
  t.lock_delay = std::chrono::milliseconds{*delay};
  const auto id = parse_number<std::uint64_t>(text.substr(0, 16), 16);
  if (!id) return std::nullopt;
  for (std::size_t i = 16; i < 48; i += 2) {
    const auto byte = parse_number<unsigned char>(text.substr(i, 2), 16);
    if (!byte) return std::nullopt;
    t.password += static_cast<char>(*byte);
  }
  t.id = static_cast<std::int64_t>(*id);
  return t;
}

}  // namespace dlock::zookeeper
