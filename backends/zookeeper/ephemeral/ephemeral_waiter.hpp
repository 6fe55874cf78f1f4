// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include "zookeeper/ephemeral/ephemeral_backend.hpp"
#include "zookeeper/session/session_waiter.hpp"

namespace dlock::zookeeper {

// Interleaving: a create got no reply. The next poll finds the node in the way, of our own session
// and with our record: it is the lost grant, and counts from a renewal then.
class EphemeralWaiter final : public SessionWaiter {
 public:
  EphemeralWaiter(EphemeralBackend& backend, Request request, std::string path)
      : SessionWaiter(backend, std::move(request)), backend_(backend), path_(std::move(path)) {}

 private:
  Step turn(Session&, Place&, Deadline end) override;
  Step look(Session&, Place&, Deadline end);

  EphemeralBackend& backend_;
  const std::string path_;
  Session* watch_session_ = nullptr;
  std::uint64_t connection_ = 0;
  std::optional<HolderView> holder_;
};

}  // namespace dlock::zookeeper
