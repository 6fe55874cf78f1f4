// SPDX-License-Identifier: Apache-2.0
#include "etcd/client/http.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <ctime>
#include "core/text.hpp"

namespace dlock::etcd {
namespace {

constexpr std::size_t longest_body = 64UL << 20U, longest_head = 1UL << 16U;

// "Thu, 26 Nov 2026 04:46:38 GMT"; 0: another form.
std::int64_t parse_date(const std::string& text) {
  std::tm t{};
  const char* end = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &t);
  return end && *end == '\0' ? ::timegm(&t) : 0;
}

}  // namespace

template <int (HttpReader::*handle)(std::string_view)>
int HttpReader::data(http_parser* p, const char* at, std::size_t n) {
  return (static_cast<HttpReader*>(p->data)->*handle)({at, n});
}
template <int (HttpReader::*handle)()>
int HttpReader::event(http_parser* p) {
  return (static_cast<HttpReader*>(p->data)->*handle)();
}

HttpReader::HttpReader() {
  http_parser_init(&parser_, HTTP_RESPONSE);
  parser_.data = this;
}

bool HttpReader::feed(std::string_view bytes) {
  static const http_parser_settings settings = [] {
    http_parser_settings s{};
    s.on_message_begin = event<&HttpReader::begin>;
    s.on_header_field = data<&HttpReader::field>;
    s.on_header_value = data<&HttpReader::value>;
    s.on_headers_complete = event<&HttpReader::head>;
    s.on_body = data<&HttpReader::add_body>;
    s.on_message_complete = event<&HttpReader::message_complete>;
    return s;
  }();
  if (complete_) return bytes.empty();
  return http_parser_execute(&parser_, &settings, bytes.data(), bytes.size()) == bytes.size() &&
         HTTP_PARSER_ERRNO(&parser_) == HPE_OK && parser_.upgrade == 0;
}

bool HttpReader::end() { return feed({}) && complete_; }

int HttpReader::field(std::string_view part) {
  if (std::exchange(in_value_, false)) {
    field_.clear();
    value_.clear();
  }
  field_ += part;
  return field_.size() > longest_head ? 1 : 0;
}

int HttpReader::value(std::string_view part) {
  in_value_ = true;
  value_ += part;
  if (lower(field_) == "date") date_ = parse_date(value_);
  return value_.size() > longest_head ? 1 : 0;
}

int HttpReader::head() {
  head_ = true;
  return 0;
}

int HttpReader::add_body(std::string_view part) {
  body_ += part;
  return body_.size() > longest_body ? 1 : 0;
}

int HttpReader::message_complete() {
  complete_ = true;
  stays_open_ = http_should_keep_alive(&parser_) != 0;
  return 0;
}

std::optional<std::string> HttpReader::take_line() {
  const std::size_t end = body_.find('\n');
  if (end == body_.npos) return std::nullopt;
  std::string line = body_.substr(0, end);
  body_.erase(0, end + 1);
  return line;
}

Result<void> Http::send(std::string_view path, std::string_view body, std::string_view token,
                        Wait wait) {
  reader_ = std::make_unique<HttpReader>();
  const std::string login = token.empty() ? "" : fmt::format("Authorization: {}\r\n", token);
  return stream_->send(fmt::format("POST {} HTTP/1.1\r\nHost: {}\r\n{}Content-Type: "
                                   "application/json\r\nContent-Length: {}\r\n\r\n{}",
                                   path, host_, login, body.size(), body),
                       wait);
}

Result<bool> Http::read(Wait wait) {
  std::string bytes;
  const auto got = stream_->receive(bytes, wait);
  if (!got && got.error().code == Errc::unavailable && reader_->end()) return true;
  if (!got) {
    const Errc code = got.error().code == Errc::denied ? Errc::denied : Errc::timed_out;
    return fail(code, got.error().message);
  }
  if (*got && !reader_->feed(bytes)) return fail(Errc::protocol, "the answer is no HTTP");
  return *got;
}

Result<HttpAnswer> Http::post(std::string_view path, std::string_view body, std::string_view token,
                              Wait wait) {
  auto sent = send(path, body, token, wait);
  if (!sent) return fail(Errc::timed_out, sent.error().message);
  while (!reader_->complete()) {
    TRY(more, read(wait));
    if (!more) return fail(Errc::timed_out, "no answer in time");
  }
  return HttpAnswer{reader_->status(), reader_->date(), reader_->take_body()};
}

Result<int> Http::start(std::string_view path, std::string_view body, std::string_view token,
                        Wait wait) {
  TRY_VOID(send(path, body, token, wait));
  while (!reader_->has_head()) {
    TRY(more, read(wait));
    if (!more) return fail(Errc::timed_out, "no answer in time");
  }
  return reader_->status();
}

Result<std::optional<std::string>> Http::next_line(Wait wait) {
  for (;;) {
    if (auto line = reader_->take_line()) return line;
    if (reader_->complete()) return fail(Errc::unavailable, "the stream has ended");
    TRY(more, read(wait));
    if (!more) return std::optional<std::string>{};
  }
}

std::string http_library() {
  const unsigned long v = http_parser_version();
  return fmt::format("http-parser {}.{}.{}", v >> 16U & 255U, v >> 8U & 255U, v & 255U);
}

}  // namespace dlock::etcd
