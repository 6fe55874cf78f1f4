// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 as far as the JSON gateway needs it: POST and its answer, whole or as a stream of lines.
#pragma once
#include <http_parser.h>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include "etcd/client/stream.hpp"

namespace dlock::etcd {

// Bytes of one answer in, its parts out. No I/O.
class HttpReader {
 public:
  HttpReader();
  // False: this is no answer, or more than one.
  bool feed(std::string_view bytes);
  bool end();  // the peer ends the connection: an answer without a length is complete. False: cut

  bool has_head() const noexcept { return head_; }
  bool complete() const noexcept { return complete_; }
  bool stays_open() const noexcept { return stays_open_; }
  int status() const noexcept { return parser_.status_code; }
  // The header Date, in seconds since 1970; 0: none.
  std::int64_t date() const noexcept { return date_; }
  std::string take_body() noexcept { return std::exchange(body_, {}); }
  // The next line of the body, which is taken; nullopt: it is not there yet.
  std::optional<std::string> take_line();

 private:
  template <int (HttpReader::*handle)(std::string_view)>
  static int data(http_parser* p, const char* at, std::size_t n);
  template <int (HttpReader::*handle)()>
  static int event(http_parser* p);
  int begin() { return complete_ ? 1 : 0; }
  int field(std::string_view);
  int value(std::string_view);
  int head();
  int add_body(std::string_view);
  int message_complete();

  http_parser parser_{};
  std::string body_, field_, value_;
  std::int64_t date_ = 0;
  bool in_value_ = false, head_ = false, complete_ = false, stays_open_ = false;
};

struct HttpAnswer {
  int status = 0;
  std::int64_t date = 0;
  std::string body;
};

// One connection, one request at a time. After an error it is useless.
class Http {
 public:
  Http(std::unique_ptr<Stream> stream, std::string host)
      : stream_(std::move(stream)), host_(std::move(host)) {}

  // Errc::timed_out: the outcome is unknown. Errc::protocol: likewise; this is no HTTP.
  // Errc::denied: TLS.
  Result<HttpAnswer> post(std::string_view path, std::string_view body, std::string_view token,
                          Wait);
  // The answer comes in lines. Its status.
  Result<int> start(std::string_view path, std::string_view body, std::string_view token, Wait);
  Result<std::optional<std::string>> next_line(Wait);  // nullopt: the wait is over
  bool stays_open() const noexcept { return !reader_ || reader_->stays_open(); }
  int fd() const noexcept { return stream_->fd(); }

 private:
  Result<void> send(std::string_view path, std::string_view body, std::string_view token, Wait);
  Result<bool> read(Wait);  // false: the wait is over

  std::unique_ptr<Stream> stream_;
  const std::string host_;
  std::unique_ptr<HttpReader> reader_;
};

std::string http_library();  // "http-parser 2.9.4"

}  // namespace dlock::etcd
