// SPDX-License-Identifier: Apache-2.0
#include "core/exit_status.hpp"

namespace dlock {
namespace {

constexpr ExitStatus table[] = {
    {status_ok, "ok", "done; run: the command's own status, 0 to 255"},
    {status_stale, "stale", "check: the grant is not in force any more; inspect --doctor: unfit"},
    {status_usage, "usage", "wrong options, or a recipe that cannot do what was asked"},
    {status_unavailable, "unavailable", "the store is unavailable"},
    {status_bug, "bug", "a bug in dlock"},
    {status_cannot_create, "cannot_create",
     "a directory, file or table cannot be created or written"},
    {status_busy, "busy",
     "the lock is held, or --once-per allows no start yet (-E sets another status); renew, "
     "release: not held by this handle"},
    {status_denied, "denied", "authentication or permission refused"},
    {status_config, "config",
     "the configuration, an environment variable or a secret file is wrong"},
    {status_revoked, "revoked", "release --revoke asked for the lock, and the command was ended"},
    {status_lost, "lost",
     "the lock was lost, and the command was stopped; fence: the token is too old"},
    {status_max_run, "max_run", "--max-run ended the command"},
    {status_failed_holding, "failed_holding", "dlock failed after it had the lock"},
    {status_cannot_execute, "cannot_execute", "the command cannot be executed"},
    {status_not_found, "not_found", "the command was not found"},
};

}  // namespace

std::span<const ExitStatus> exit_statuses() noexcept { return table; }

Status exit_status(Errc code) noexcept {
  switch (code) {
    case Errc::usage: return status_usage;
    case Errc::config: return status_config;
    case Errc::denied: return status_denied;
    case Errc::cannot_create: return status_cannot_create;
    case Errc::unavailable:
    case Errc::exhausted:
    case Errc::timed_out:
    case Errc::protocol: return status_unavailable;
    case Errc::stale: return status_lost;
    case Errc::internal: return status_bug;
  }
  return status_bug;
}

}  // namespace dlock
