// SPDX-License-Identifier: Apache-2.0
#include "redis/fair_inspect.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/duration.hpp"
#include "core/lock_view.hpp"
#include "redis/doctor.hpp"
#include "redis/fair_recipe.hpp"
#include "redis/record.hpp"

namespace dlock::redis {
namespace {

// A lease that lasts longer than it was asked for: the clock of the server was put back since.
void note_clock(const LockState::Holder& h, Micros now, std::vector<std::string>& notes) {
  if (h.since <= now + 1'000'000) return;
  notes.push_back(
      fmt::format("the server's clock went back by at least {} since this grant: it ends that much later, unless it is released",
                  format_duration(Duration{h.since - now})));
}

void note_cut(std::size_t shown, std::int64_t have, std::string_view of_what, std::vector<std::string>& notes) {
  if (static_cast<std::int64_t>(shown) < have) notes.push_back(fmt::format("{} of {} {} are shown", shown, have, of_what));
}

}  // namespace

Result<std::optional<KeyView>> view_of(const FairKeys& keys, const Reply& reply) {
  const auto now = reply.number_at(0);
  if (!now || reply.items.size() != 6 || !reply.number_at(2) || !reply.number_at(4))
    return fail(Errc::protocol, "inspect: the answer makes no sense");
  const std::string_view fence = reply.text_at(1);
  const Reply& holders = reply.items[3];
  const Reply& waiters = reply.items[5];
  if (fence.empty() && holders.items.empty() && waiters.items.empty()) return std::optional<KeyView>{};

  KeyView v;
  v.key = FairKeys::key_text(keys.name(), fence);
  v.fence = parse_unsigned(fence.substr(0, fence.find(' '))).value_or(0);
  for (std::size_t i = 0; i + 1 < holders.items.size(); i += 2) {
    const auto h = parse_holder(holders.text_at(i + 1));
    if (!h) continue;
    v.holders.push_back(view_of(*h, *now));
    v.holders.back().id = holders.text_at(i);
    note_clock(*h, *now, v.notes);
  }
  std::sort(v.holders.begin(), v.holders.end(), [](const HolderView& a, const HolderView& b) { return a.token < b.token; });
  for (std::size_t i = 0; i + 1 < waiters.items.size(); i += 2) {
    const auto w = parse_waiter(waiters.text_at(i + 1));
    if (!w) continue;
    v.waiters.push_back(view(*w));
    v.waiters.back().id = waiters.text_at(i);
  }
  note_cut(v.holders.size(), *reply.number_at(2), "holders", v.notes);
  note_cut(v.waiters.size(), *reply.number_at(4), "waiters", v.notes);
  return std::optional{std::move(v)};
}

Result<void> FairBackend::names_at(const Endpoint& at, std::vector<std::string>& names) {
  const std::string& prefix = client_->options().prefix;
  return client_->scan(at, FairKeys::pattern(prefix), [&](std::string_view found) {
    if (auto name = FairKeys::name_in(found, prefix)) names.push_back(std::move(*name));
  });
}

Result<std::vector<KeyView>> FairBackend::list() {
  if (client_->options().prefix.empty())
    return fail(Errc::usage, "without a prefix only a named key can be inspected: give a KEY");
  const auto servers = client_->locator().everyone({client_->usual_deadline()});
  if (!servers) return fail(servers.error());
  std::vector<std::string> names;
  for (const Endpoint& at : *servers)
    if (auto ok = names_at(at, names); !ok) return fail(std::move(ok.error()));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());

  std::vector<KeyView> views;
  for (std::string& name : names) {
    auto v = inspect(FairKeys{client_->options().prefix, std::move(name)});
    if (!v) return fail(std::move(v.error()));
    if (*v) views.push_back(std::move(**v));
  }
  std::sort(views.begin(), views.end(), [](const KeyView& a, const KeyView& b) { return a.key < b.key; });
  return views;
}

Result<std::vector<Finding>> FairBackend::doctor() { return examine_all(*client_, traits_); }

}  // namespace dlock::redis
