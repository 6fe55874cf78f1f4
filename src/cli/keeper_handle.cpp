// SPDX-License-Identifier: Apache-2.0
#include "cli/keeper_handle.hpp"

namespace dlock::cli {
namespace {

constexpr std::string_view mark = "keeper.";

}  // namespace

std::string new_keeper_name() { return std::string(mark) + Owner::random().hex(); }

std::string socket_of(std::string_view extra) {
  return extra.starts_with(mark) ? std::string(extra.substr(mark.size())) : std::string();
}

Result<std::optional<run::KeeperAnswer>> ask_keeper_of(const Handle& handle, std::string_view what) {
  const std::string socket = socket_of(handle.extra);
  if (socket.empty()) return std::optional<run::KeeperAnswer>{};
  const auto answer = run::ask_keeper(socket, what, handle.owner);
  if (!answer) return fail(answer.error());
  return std::optional{*answer};
}

}  // namespace dlock::cli
