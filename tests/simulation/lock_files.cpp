// SPDX-License-Identifier: Apache-2.0
#include "simulation/lock_files.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <limits>
#include <utility>
#include "file/lease/lifeline.hpp"
#include "file/lease/state_codec.hpp"
#include "file/lease/state_file.hpp"
#include "simulation/process.hpp"

namespace dlock::simulation {
namespace {

constexpr Nanos for_ever = std::numeric_limits<Nanos>::max();

// The newest slot whose checksum is right.
std::optional<file::KeyRecord> in_force(const FileSystem& files, const Node& state) {
  std::uint64_t newest = 0;
  std::optional<file::KeyRecord> record;
  for (const off_t slot : {off_t{0}, file::slot_size}) {
    std::string text(file::header_size, '\0');
    const auto n = files.read(state, text.data(), text.size(), slot);
    const auto header = file::parse_header({text.data(), static_cast<std::size_t>(n)});
    if (header.kind != file::Header::Kind::good || header.seq < newest) continue;
    std::string body(header.length, '\0');
    files.read(state, body.data(), body.size(), slot + static_cast<off_t>(file::header_size));
    if (file::checksum(body, header.seq) != header.checksum) continue;
    newest = header.seq;
    record = file::decode(body);
  }
  return record;
}

}  // namespace

LockFiles::LockFiles(World& world, Ledger& ledger, unsigned limit)
    : Server(world), ledger_(ledger), limit_(limit) {
  up_ = false;
  world.files = &files_;
  world.disk_fails = [this](const Fault& fault) { fails(fault); };
  files_.written = [this](const Node& node) { written(node); };
  files_.stirred = [this](const Node& fifo) {
    for (Process* const p : world_.processes) p->stirred(fifo);
  };
}

void LockFiles::written(const Node& node) {
  if (state().get() != &node) return;
  const auto record = in_force(files_, node);
  if (!record) return;
  std::map<FencingToken, std::string> now;
  for (const auto& h : record->state.holders) {
    if (h.token == 0) continue;  // taken over without its record
    now[h.token] = h.owner.hex();
    if (ledger_.knows(h.token)) continue;
    ledger_.granted(h.token, h.mode, limit_, for_ever);
    if (world_.told())
      world_.say("state",
                 fmt::format("grants token {} to {}", h.token, h.owner.hex().substr(0, 8)));
  }
  if (seen_ == node.number)
    for (const auto& [token, owner] : held_)
      if (!now.contains(token)) {
        if (world_.told()) world_.say("state", fmt::format("has token {} no more", token));
        ledger_.removed(token, "change of the state");
      }
  seen_ = node.number;
  held_ = std::move(now);
}

bool LockFiles::empty() const {
  const NodePtr node = state();
  const auto record = node ? in_force(files_, *node) : std::nullopt;
  if (!record) return false;  // who holds is not in there
  const auto& holders = record->state.holders;
  return std::none_of(holders.begin(), holders.end(), [&](const auto& h) {
    const NodePtr fifo = files_.find("/locks/k/" + file::fifo_name(h.ticket));
    return fifo && fifo->readers > 0;
  });
}

void LockFiles::fails(const Fault& fault) {
  if (fault.kind == Fault::Kind::remove) {
    const NodePtr directory = files_.find("/locks/k"), node = state();
    if (!node) return;
    node->named = false;
    directory->entries.erase("state");
    return;
  }
  full_until_ = std::max(full_until_, world_.now() + fault.span);
  files_.full = true;
  world_.at(full_until_, 23, [this] { files_.full = world_.now() < full_until_; });
}

}  // namespace dlock::simulation
