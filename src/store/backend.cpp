// SPDX-License-Identifier: Apache-2.0
#include "store/backend.hpp"
#include <fmt/format.h>
#include <algorithm>

namespace dlock {

Error Backend::cannot(std::string_view what) const {
  return {Errc::usage, fmt::format("{}, recipe {}: {}", traits().family, traits().recipe, what)};
}
Result<Released> Backend::revoke(const Key&) {
  return fail(cannot("a holder cannot be asked to stop"));
}
Result<RunStarts> Backend::starts(const Key&) {
  return fail(cannot("does not note when jobs were started"));
}
Result<UpdateResult> Backend::note_start(const Lease&, const RunStartUpdate&) {
  return fail(cannot("does not note when jobs were started"));
}

bool RunStartUpdate::fits(const std::optional<RunStart>& noted, std::int64_t now) const noexcept {
  const auto needed = [&](const std::optional<RunStart>& s) {
    return s && s->until > now ? s : std::optional<RunStart>{};
  };
  return needed(noted) == needed(was) || needed(noted) == needed(is);
}

Result<void> Backend::erase(const Key&) { return fail(cannot("has nothing to erase")); }
Result<std::vector<Finding>> Backend::doctor() { return fail(cannot("has nothing to examine")); }

Result<std::optional<KeyView>> Backend::inspect_name(const std::string& name) {
  const auto key = Key::parse(name);
  if (!key) return std::optional<KeyView>{};
  return inspect(*key);
}

Result<std::vector<KeyView>> list(Backend& backend) {
  TRY(names, backend.names());
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<KeyView> all;
  for (const std::string& name : names) {
    TRY(view, backend.inspect_name(name));
    if (view) all.push_back(std::move(*view));
  }
  std::ranges::sort(all, {}, &KeyView::key);
  return all;
}

}  // namespace dlock
