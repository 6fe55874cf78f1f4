// SPDX-License-Identifier: Apache-2.0
#include "etcd/client/http.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <algorithm>
#include <ctime>
#include "core/text.hpp"

namespace dlock::etcd {
namespace {

constexpr std::size_t longest_body = 64UL << 20U, longest_head = 1UL << 16U;

// Parses "Thu, 26 Nov 2026 04:46:38 GMT". Returns 0 if the text has another form.
std::int64_t parse_date(const std::string& text) {
  std::tm t{};
  const char* end = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &t);
  return end && *end == '\0' ? ::timegm(&t) : 0;
}

// If a part of a request was sent, the outcome of the request is unknown, unless TLS failed.
tl::unexpected<Error> without_outcome(Error e) {
  if (e.code != Errc::denied) e.code = Errc::timed_out;
  return fail(std::move(e));
}

}  // namespace

HttpReader::HttpReader() {
  http_parser_init(&parser_, HTTP_RESPONSE);
  parser_.data = this;
}

// A callback that returns 1 ends the parsing, and feed() returns false.
bool HttpReader::feed(std::string_view bytes) {
  static const http_parser_settings settings = [] {
    http_parser_settings s{};
    s.on_message_begin = [](http_parser* p) { return of(p).complete_ ? 1 : 0; };
    s.on_header_field = [](http_parser* p, const char* at, std::size_t n) {
      return of(p).add_name({at, n}) ? 0 : 1;
    };
    s.on_header_value = [](http_parser* p, const char* at, std::size_t n) {
      return of(p).add_value({at, n}) ? 0 : 1;
    };
    s.on_headers_complete = [](http_parser* p) {
      of(p).head_ = true;
      return 0;
    };
    s.on_body = [](http_parser* p, const char* at, std::size_t n) {
      return of(p).body_.append(at, n).size() > longest_body ? 1 : 0;
    };
    s.on_message_complete = [](http_parser* p) {
      of(p).complete_ = true;
      of(p).stays_open_ = http_should_keep_alive(p) != 0;
      return 0;
    };
    return s;
  }();
  if (complete_) return bytes.empty();
  return http_parser_execute(&parser_, &settings, bytes.data(), bytes.size()) == bytes.size() &&
         HTTP_PARSER_ERRNO(&parser_) == HPE_OK && parser_.upgrade == 0;
}

bool HttpReader::end() { return feed({}) && complete_; }

bool HttpReader::add_name(std::string_view part) {
  if (std::exchange(in_value_, false)) {
    name_.clear();
    value_.clear();
  }
  name_ += part;
  return name_.size() <= longest_head;
}

bool HttpReader::add_value(std::string_view part) {
  in_value_ = true;
  value_ += part;
  if (lower(name_) == "date") date_ = parse_date(value_);
  return value_.size() <= longest_head;
}

std::optional<std::string> HttpReader::next_line() {
  const std::size_t end = body_.find('\n');
  if (end == body_.npos) return std::nullopt;
  std::string line = body_.substr(0, end);
  body_.erase(0, end + 1);
  return line;
}

// A peer that accepts the connection may still be silent. So if there is another peer, this peer
// must send something before it is used.
Result<void> Http::open(Deadline until, Deadline heard_by) {
  for (bool asked = false;;) {
    Result<bool> more = asked ? step() : transport_.step_open(Clock::now());
    if (!more && more.error().code != Errc::denied) more.error().code = Errc::unavailable;
    if (!more) return fail(std::move(more.error()));
    if (asked && complete()) return {};
    if (!asked && *more) {
      const bool choice = heard_by < until || transport_.has_other();
      if (transport_.received() || !choice || heard_by == no_deadline) return {};
      ask("GET /version", "", "");
      asked = true;
      continue;
    }
    const Deadline by = transport_.received() ? until : std::min(until, heard_by);
    if (Clock::now() >= by)
      return fail(Errc::unavailable, "cannot connect to {}: no {} in time", host_,
                  asked ? "answer" : "TLS handshake");
    (void)wait_for(fd(), events(), {std::min(by, poll_until())});
  }
}

void Http::ask(std::string_view what, std::string_view body, std::string_view token) {
  reader_.emplace();
  const std::string login = token.empty() ? "" : fmt::format("Authorization: {}\r\n", token);
  request_ = fmt::format(
      "{} HTTP/1.1\r\nHost: {}\r\n{}Content-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      what, host_, login, body.size(), body);
  sent_ = false;
}

Result<bool> Http::step() {
  if (transport_.leave_silent(Clock::now())) sent_ = false;
  return go_on();
}

Result<bool> Http::go_on() {
  TRY(open, transport_.step_open(Clock::now()));
  if (!open) return false;
  if (!std::exchange(sent_, true)) transport_.add(request_);
  std::string bytes;
  auto more = transport_.receive(bytes);
  if (!more && more.error().code != Errc::denied && reader_->end()) return true;
  if (!more && plain_ && !transport_.received())
    more.error().message += "; does it speak TLS on this port? (etcds://, tls=yes)";
  if (!more) return without_outcome(std::move(more.error()));
  if (*more && !reader_->feed(bytes)) return fail(Errc::protocol, "the answer is no HTTP");
  return more;
}

Result<HttpAnswer> Http::post(std::string_view path, std::string_view body, std::string_view token,
                              Deadline until) {
  ask(fmt::format("POST {}", path), body, token);
  while (!complete()) {
    TRY(more, go_on());  // the request is sent once, to this address only
    if (complete() || (more && Clock::now() < until)) continue;
    if (Clock::now() >= until || !wait_for(fd(), events(), {until}))
      return fail(Errc::timed_out,
                  transport_.unsent() ? "not all could be sent in time" : "no answer in time");
  }
  return HttpAnswer{reader_->status(), reader_->date(), reader_->extract_body()};
}

std::string http_library() {
  const unsigned long v = http_parser_version();
  return fmt::format("http-parser {}.{}.{}", v >> 16U & 255U, v >> 8U & 255U, v & 255U);
}

}  // namespace dlock::etcd
