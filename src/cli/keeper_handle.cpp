// SPDX-License-Identifier: Apache-2.0
#include "cli/keeper_handle.hpp"

namespace dlock::cli {
namespace {

constexpr std::string_view keeper_mark = "keeper.";

}  // namespace

std::string new_keeper_name() { return Owner::random().hex(); }

std::string keeper_extra(const std::string& name) {
  return std::string(keeper_mark) + run::KeeperPlace::of_this_process(name).text();
}

Result<std::optional<run::KeeperAnswer>> ask_keeper_of(const Handle& handle,
                                                       std::string_view what) {
  if (!handle.extra.starts_with(keeper_mark)) return std::optional<run::KeeperAnswer>{};
  const auto keeper =
      run::KeeperPlace::parse(std::string_view(handle.extra).substr(keeper_mark.size()));
  TRY(answer, run::ask_keeper(keeper, what, handle.owner));
  return std::optional{answer};
}

}  // namespace dlock::cli
