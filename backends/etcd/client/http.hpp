// SPDX-License-Identifier: Apache-2.0
// As much of HTTP/1.1 as the JSON gateway needs: POST, and its reply as a whole or as a stream of
// lines.
#pragma once
#include <http_parser.h>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include "common/exchange.hpp"
#include "common/net/transport.hpp"

namespace dlock::etcd {

// Takes the bytes of one reply, and returns its parts. No I/O.
class HttpReader {
 public:
  HttpReader();
  HttpReader(const HttpReader&) = delete;
  HttpReader& operator=(const HttpReader&) = delete;
  // False: this is no reply, or more than one.
  bool feed(std::string_view bytes);
  // Call it when the peer has ended the connection. True: the reply is complete, also one without a
  // length. False: it was cut off.
  bool end();

  bool has_head() const noexcept { return head_; }
  bool complete() const noexcept { return complete_; }
  bool stays_open() const noexcept { return stays_open_; }
  int status() const noexcept { return parser_.status_code; }
  // Returns the header Date, in seconds since 1970; 0: there was none.
  std::int64_t date() const noexcept { return date_; }
  std::string extract_body() noexcept { return std::exchange(body_, {}); }
  // Takes the next line of the body; nullopt: it is not there yet.
  std::optional<std::string> next_line();

 private:
  static HttpReader& of(http_parser* p) { return *static_cast<HttpReader*>(p->data); }
  bool add_name(std::string_view);
  bool add_value(std::string_view);

  http_parser parser_{};
  std::string body_, name_, value_;  // name and value of the current header
  std::int64_t date_ = 0;
  bool in_value_ = false, head_ = false, complete_ = false, stays_open_ = false;
};

struct HttpAnswer {
  int status = 0;
  std::int64_t date = 0;
  std::string body;
};

// One connection, which carries one request at a time. It cannot be used after an error.
class Http {
 public:
  Http(const Endpoint& at, const TlsContext* tls, Duration silence, Deadline until,
       std::size_t first)
      : transport_(at, tls, silence, until, first), plain_(!tls), host_(at.text()) {}

  // Opens the connection; call it before post(). `heard_by`: when to leave a peer that has sent
  // nothing, because there is another one. `until`: there is no other peer. no_deadline: the peer
  // has replied before and need not send anything now. Errc::unavailable: no peer replies.
  // Errc::denied: TLS.
  Result<void> open(Deadline until, Deadline heard_by);
  // Errc::timed_out: the outcome is unknown. Errc::protocol: unknown, too, and the peer does not
  // speak HTTP. Errc::denied: TLS; nothing was done.
  Result<HttpAnswer> post(std::string_view path, std::string_view body, std::string_view token,
                          Deadline until);

  // Like post(), but without waiting: step() sends the request, "POST /path". If the first address
  // of the name stays silent, it sends the request to the next one.
  void ask(std::string_view what, std::string_view body, std::string_view token);
  // Opens, sends and reads as much as possible now. Call it again when events() happen on fd(), and
  // no later than poll_until(). True: more of the reply has come.
  Result<bool> step();
  std::optional<std::string> next_line() { return reader_->next_line(); }
  bool complete() const noexcept { return reader_->complete(); }
  bool stays_open() const noexcept { return !reader_ || reader_->stays_open(); }
  int fd() const noexcept { return transport_.poll_fd(); }
  short events() const noexcept { return transport_.poll_events(); }
  Deadline poll_until() const noexcept { return transport_.poll_until(); }

 private:
  Result<bool> go_on();  // step() for the current address

  Transport transport_;
  const bool plain_;  // without TLS
  const std::string host_;
  std::string request_;
  bool sent_ = true;
  std::optional<HttpReader> reader_;
};

std::string http_library();  // "http-parser 2.9.4"

}  // namespace dlock::etcd
