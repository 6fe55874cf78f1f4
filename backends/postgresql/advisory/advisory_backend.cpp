// SPDX-License-Identifier: Apache-2.0
#include "postgresql/advisory/advisory_backend.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <limits>
#include "postgresql/doctor.hpp"
#include "postgresql_schema/schema.hpp"

namespace dlock::postgresql {
namespace {

template <class Unit>
std::int64_t in(Duration d) noexcept {
  return std::chrono::ceil<Unit>(d).count();
}

}  // namespace

// A ttl that is longer than the setting can be has none.
Call AdvisoryBackend::silence(Duration ttl) const {
  constexpr std::int64_t longest_keepalive = 32767;  // of Linux
  const auto ms = in<std::chrono::milliseconds>(ttl);
  const auto s = std::min(in<std::chrono::seconds>(ttl), longest_keepalive);
  return {sql_.silence,
          {std::to_string(ms > std::numeric_limits<int>::max() ? 0 : ms), std::to_string(s)}};
}

AdvisoryBackend::AdvisoryBackend(const Traits& traits, Options options)
    : client_(std::move(options), schema::advisory),
      traits_(traits),
      sql_(client_.options().key_kind) {}

AdvisoryBackend::~AdvisoryBackend() {
  for (auto& [id, h] : held_) lose(h);
}

Error AdvisoryBackend::refuse(std::string_view what) const {
  return {Errc::usage, fmt::format("postgresql, recipe advisory: {}", what)};
}

std::string AdvisoryBackend::record_of(std::string_view key) const {
  return fmt::format("{}:{}{}", client_.options().key_kind, client_.options().prefix, key);
}

Result<AdvisoryBackend::Lock> AdvisoryBackend::lock_of(const Key& key) const {
  TRY(value, lock_value(client_.options().key_kind, client_.options().prefix + key.text()));
  return Lock{std::move(value), record_of(key.text())};
}

AdvisoryBackend::Held* AdvisoryBackend::mine(const Key& key, const Owner& owner) {
  const auto found = held_.find({key.text(), owner});
  return found == held_.end() ? nullptr : &found->second;
}

void AdvisoryBackend::lose(Held& h) {
  if (h.connection) h.connection->abandon();
  client_.drop(std::move(h.connection));
}

Granted AdvisoryBackend::granted(Lease lease, Held& h, Deadline sent, Duration ttl) const {
  lease.token = h.token;
  lease.attached = true;
  lease.deadline = lease_end(sent, ttl);
  return Granted{std::move(lease), h.connection->fd(), h.alarm.get()};
}

Result<Renewal> AdvisoryBackend::renew(const Lease& lease, Duration ttl) {
  Held* h = mine(lease.key, lease.owner);
  if (!h) {
    TRY(seen, look(lease.key));
    if (!seen.ours || seen.owner != lease.owner.hex())
      return Renewal{Lost{"there is no lock with this handle"}};
    return fail(refuse("only the process that has the connection can renew it"));
  }
  const auto over = [&](std::string why) {
    lose(*h);
    return Renewal{Lost{std::move(why)}};
  };
  if (!h->connection) return over("its session is over");
  TRY(lock, lock_of(lease.key));
  Connection& c = *h->connection;
  const Deadline until = later(Clock::now(), client_.options().op_timeout);
  // A heartbeat without an answer in time may get one later; the session is the same, so it counts
  // as soon as it comes.
  Result<std::optional<Answers>> answer = std::optional<Answers>{};
  if (c.under_way()) answer = c.receive({until});
  const Deadline sent = Clock::now();
  if (!c.under_way() && !c.broken()) {
    const Call calls[] = {silence(ttl), {sql_.beat, {lock.value}}};
    const auto ok = c.send("renew", calls, until);
    answer = ok ? c.receive({until}) : fail(ok.error());
  }
  // The session itself failed: the server ends what belongs to it. Other errors change nothing.
  if (!answer)
    return c.broken() ? Result<Renewal>{over(answer.error().message)} : fail(answer.error());
  if (!*answer) return fail(no_answer("renew", c.at().text()));
  if ((*answer)->back().text(0) != "t") return over("the session does not have it any more");
  return Renewal{Kept{granted({lease.key, lease.owner}, *h, sent, ttl).lease}};
}

Result<Released> AdvisoryBackend::release(const Lease& lease, std::optional<RunEnd>) {
  Held* h = mine(lease.key, lease.owner);
  TRY(lock, lock_of(lease.key));
  if (!h) {
    TRY(seen, look(lease.key));
    if (!seen.ours || seen.owner != lease.owner.hex()) return Released::was_not_held;
    return fail(refuse(fmt::format("only the process that has the connection can release it ({})",
                                   seen.who.text())));
  }
  auto c = std::move(h->connection);
  held_.erase({lease.key.text(), lease.owner});
  if (!c) return Released::was_not_held;
  const Deadline until = later(Clock::now(), client_.options().op_timeout);
  if (c->under_way()) (void)c->receive({until});  // of a heartbeat
  c->holds = false;
  const auto freed = c->query("release", {sql_.free, {lock.value}}, until);
  client_.give_back(std::move(c));
  // Without a session there is no lock: it ended before, or it ends now.
  return freed && freed->text(0) == "t" ? Released::yes : Released::was_not_held;
}

Result<Released> AdvisoryBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  TRY(lock, lock_of(key));
  const Deadline until = client_.usual_deadline();
  bool ended = false;
  const auto was = [](bool held) { return held ? Released::yes : Released::was_not_held; };
  return client_.run<Released>(until, false, [&](Connection& c) -> Result<Released> {
    TRY(seen, look(c, lock, until));
    const bool meant = !token || (seen.ours && seen.fence == *token);
    if (ended || seen.pids.empty() || !meant) return was(ended);
    ended = true;  // or, its answer lost, it may be: whoever has it then is another
    const auto ms = std::to_string(in<std::chrono::milliseconds>(client_.options().op_timeout / 2));
    TRY_VOID(c.query("force a release", {sql_.end, {lock.value, seen.pids, ms}}, until));
    return was(ended);
  });
}

// ---- looking -----------------------------------------------------------------------------------

Result<Rows> AdvisoryBackend::ask(std::string_view what, const Call& call) {
  const Deadline until = client_.usual_deadline();
  return client_.run<Rows>(until, false, [&](Connection& c) -> Result<Rows> {
    auto rows = c.query(what, call, until);
    if (!rows && c.remedy() == Remedy::create) return Rows{};
    return rows;
  });
}

Result<AdvisoryBackend::Seen> AdvisoryBackend::look(Connection& c, const Lock& lock,
                                                    Deadline until) {
  auto r = c.query("look", {sql_.look, {lock.value, lock.record}}, until);
  if (!r && c.remedy() == Remedy::create) r = c.query("look", {sql_.there, {lock.value}}, until);
  if (!r) return fail(std::move(r.error()));
  Seen seen;
  seen.now = r->number<Micros>(0).value_or(0);
  seen.pids = r->text(1);
  seen.exists = r->has(2);
  seen.fence = r->number<FencingToken>(2).value_or(0);
  seen.owner = r->text(3);
  seen.granted = r->number<Micros>(4).value_or(0);
  seen.who = Identity::decode(r->text(5));
  seen.ours = r->text(6) == "t";
  seen.left = r->number<Micros>(7).value_or(0);
  return seen;
}

Result<AdvisoryBackend::Seen> AdvisoryBackend::look(const Key& key) {
  TRY(lock, lock_of(key));
  const Deadline until = client_.usual_deadline();
  return client_.run<Seen>(until, false, [&](Connection& c) { return look(c, lock, until); });
}

std::optional<HolderView> AdvisoryBackend::Seen::holder() const {
  if (pids.empty()) return std::nullopt;
  HolderView h;
  if (!ours) return h;
  h.id = owner.substr(0, 8);
  h.token = fence;
  h.who = who;
  h.remaining = Duration{std::max<Micros>(0, left)};
  if (now >= granted) h.held = Duration{now - granted};
  return h;
}

Result<Validity> AdvisoryBackend::check(const Key& key, const GrantId& id) {
  TRY(seen, look(key));
  const auto* owner = std::get_if<Owner>(&id);
  const bool same = owner ? seen.owner == owner->hex() : seen.fence == std::get<FencingToken>(id);
  return seen.ours && same ? Validity::valid : Validity::stale;
}

Result<std::optional<KeyView>> AdvisoryBackend::inspect(const Key& key) {
  TRY(seen, look(key));
  const auto holder = seen.holder();
  if (!seen.exists && !holder) return std::optional<KeyView>{};
  KeyView v;
  v.key = key.text();
  v.fence = seen.fence;
  v.waiters_known = false;
  if (holder) v.holders.push_back(*holder);
  if (const auto why = seen.why(); !why.empty()) v.notes.push_back(why);
  return std::optional{std::move(v)};
}

Result<std::vector<std::string>> AdvisoryBackend::names() {
  const Statement list{"", "SELECT name FROM dlock_advisory WHERE starts_with(name,$1)"};
  const std::string before = record_of("");
  TRY(found, ask("list", {list, {before}}));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < found.rows.size(); ++i)
    names.emplace_back(found.text(0, i).substr(before.size()));
  return names;
}

Result<void> AdvisoryBackend::erase(const Key& key) {
  const Statement remove{"", "DELETE FROM dlock_advisory WHERE name=$1"};
  TRY_VOID(ask("remove", {remove, {record_of(key.text())}}));
  return {};
}

Result<std::vector<Finding>> AdvisoryBackend::doctor() { return examine(client_, traits_); }

}  // namespace dlock::postgresql
