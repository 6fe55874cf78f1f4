// SPDX-License-Identifier: Apache-2.0
// Bytes to and from one member: a non-blocking socket, with TLS where it is asked for. No call
// blocks but by poll(2) with a deadline.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include "common/exchange.hpp"
#include "core/url.hpp"
#include "etcd/client/tls.hpp"
#include "util/fd.hpp"

namespace dlock::etcd {

class Stream {
 public:
  // Errc::unavailable: nobody answers there. Errc::denied: TLS. `tls`: null for none.
  static Result<std::unique_ptr<Stream>> open(const Url::Host&, const TlsContext& tls, Wait);

  // Errc::unavailable: broken; a part may have arrived. Errc::timed_out: not all of it was sent.
  Result<void> send(std::string_view, Wait);
  // Appends at least one byte. False: the wait is over. Errc::unavailable: the peer has ended it,
  // or it is broken.
  Result<bool> receive(std::string& to, Wait);
  int fd() const noexcept { return fd_.get(); }

 private:
  Stream() = default;
  Result<void> shake_hands(Wait);
  Result<void> push(std::string wire, Wait);
  // What has arrived; empty: nothing yet.
  Result<std::string> take();

  Fd fd_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace dlock::etcd
