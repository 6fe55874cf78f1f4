// SPDX-License-Identifier: Apache-2.0
// Answers of a gateway, as bytes: HTTP in pieces, JSON that is not what was asked for.
#include <catch2/catch.hpp>
#include "etcd/client/api.hpp"
#include "etcd/client/http.hpp"

using namespace dlock;
using namespace dlock::etcd;

TEST_CASE("etcd base64 and the end of a prefix") {
  for (const std::string text : {"", "a", "ab", "abc", "abcd"})
    CHECK(from_base64(base64(text)) == text);
  CHECK(base64("ab") == "YWI=");
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  CHECK(from_base64(base64(all)) == all);
  CHECK(end_of_prefix("a/") == "a0");
  CHECK(end_of_prefix("a\xff") == "b");
  CHECK(end_of_prefix("\xff") == std::string(1, '\0'));
}

TEST_CASE("etcd HTTP: an answer in pieces of any size") {
  const std::string whole =
      "HTTP/1.1 200 OK\r\nDate: Thu, 26 Nov 2026 04:46:38 GMT\r\nContent-Length: 5\r\n\r\nhello";
  for (std::size_t piece = 1; piece <= whole.size(); ++piece) {
    HttpReader reader;
    for (std::size_t at = 0; at < whole.size(); at += piece)
      REQUIRE(reader.feed(std::string_view{whole}.substr(at, piece)));
    REQUIRE(reader.complete());
    CHECK(reader.status() == 200);
    CHECK(reader.date() == 1795668398);
    CHECK(reader.stays_open());
    CHECK(reader.extract_body() == "hello");
  }
}

TEST_CASE("etcd HTTP: a stream, a close, a cut, no HTTP, two answers") {
  HttpReader stream;
  REQUIRE(stream.feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
  CHECK(stream.has_head());
  REQUIRE(stream.feed("4\r\n{}\n{\r\n"));
  CHECK(stream.next_line() == "{}");
  CHECK_FALSE(stream.next_line());
  REQUIRE(stream.feed("2\r\n}\n\r\n"));
  CHECK(stream.next_line() == "{}");
  CHECK_FALSE(stream.complete());
  CHECK_FALSE(stream.end());

  HttpReader closed;
  REQUIRE(closed.feed("HTTP/1.1 503 No\r\nConnection: close\r\n\r\nx"));
  CHECK_FALSE(closed.complete());
  CHECK(closed.end());
  CHECK_FALSE(closed.stays_open());

  HttpReader other;
  CHECK_FALSE(other.feed("-ERR unknown command\r\n"));
  HttpReader two;
  const std::string one = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  CHECK_FALSE(two.feed(one + one));
}

TEST_CASE("etcd answers that are none") {
  for (const char* text : {"", "null", "[]", "3", "{}", R"({"header":5})", R"({"header":{}})",
                           R"({"header":{"revision":"x"}})", R"({"header":{"revision":"-4"}})"})
    CHECK_FALSE(TxnAnswer::of(Json::parse(text, nullptr, false)));
  const auto a =
      TxnAnswer::of(Json::parse(R"({"header":{"revision":"7"},"succeeded":"yes",)"
                                R"("responses":[3,{"response_range":{"kvs":"x"}},{}]})"));
  REQUIRE(a);
  CHECK_FALSE(a->succeeded);
  CHECK(a->range(99).empty());
  CHECK(WatchLine::of("nonsense").over);
  CHECK(WatchLine::of(R"({"error":{"message":"x"}})").over);
  CHECK(WatchLine::of(R"({"result":{"canceled":true}})").over);
  CHECK(WatchLine::of(R"({"result":{"events":[{"type":"DELETE","kv":{"key":"YQ=="}}]}})")
            .events.at(0)
            .deleted);
  CHECK(reason_of(Json::parse(R"({"error":{"message":"x"}})")) == "x");
  CHECK(reason_of(Json::parse(R"({"error":"y"})")) == "y");
}
