// SPDX-License-Identifier: Apache-2.0
// A name with several addresses, and several endpoints, of which one has no TLS that fits.
#include <atomic>
#include "faults.hpp"
#include "support/certificates.hpp"
#include "support/name_service.hpp"
#include "support/stranger.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

// 127.0.0.2:port takes connections, and answers each with these bytes, or with none.
struct SecondAddress {
  SecondAddress(std::uint16_t port, const std::string& answer)
      : stranger(
            [this, answer](Fd peer) {
              ++came;
              say(peer, answer);
              held.push_back(std::move(peer));
            },
            port, 2) {}
  std::atomic<int> came{0};
  std::vector<Fd> held;
  const Stranger stranger;
};

struct TlsFiles {
  TestDirectory dir;
  Authority ours{dir.path(), "ours"};
  Authority::Files files = ours.issue("server", "DNS:two.test,IP:127.0.0.1"),
                   own = ours.issue("client", "DNS:client");
  EtcdServer::Setup setup(std::vector<std::string> more = {}) const {
    EtcdServer::Setup s = in_memory(1, {"--cert-file", files.cert, "--key-file", files.key});
    s.flags.insert(s.flags.end(), more.begin(), more.end());
    s.scheme = "https";
    return s;
  }
  std::string items() const { return "?tls_ca=" + ours.file(); }
  std::string with_own() const {
    return fmt::format("{}&tls_cert={}&tls_key={}", items(), own.cert, own.key);
  }
};

Result<Progress> poll(const std::string& url) {
  return open_etcd(url, quick(4s))->enqueue(request(key("k"), 30s)).value()->poll(0s);
}
void until_it_serves(const std::string& url) {
  REQUIRE(becomes([&] { return poll(url).has_value(); }));
}

}  // namespace

TEST_CASE("TLS fails at the first address of a name: the next one serves within op-timeout") {
  TlsFiles tls;
  EtcdServer server{tls.setup()};
  until_it_serves("etcds://" + server.host() + tls.items());
  name_service::answer("two.test", {"127.0.0.2", "127.0.0.1"});
  for (const char* answer : {"HTTP/1.1 400 Bad Request\r\n\r\n", ""}) {
    CAPTURE(answer);
    SecondAddress second{port_of(server.host()), answer};
    CHECK(one_of_five([&] {  // within op_timeout
      const auto p =
          poll(fmt::format("etcds://two.test:{}{}", port_of(server.host()), tls.items()));
      if (!p) UNSCOPED_INFO(p.error().message);
      return p.has_value();
    }));
    CHECK(second.came > 0);
  }
}

TEST_CASE("a name of several members, of which the first is silent: the next one is asked") {
  EtcdServer server{in_memory()};
  name_service::answer("two.test", {"127.0.0.2", "127.0.0.1"});
  SecondAddress second{port_of(server.host()), ""};
  const auto b = open_etcd(fmt::format("etcd://two.test:{}", port_of(server.host())), quick(500ms));
  const Lease lease = take(*b, request(key("k"), 600s));
  CHECK(second.came > 0);
  CHECK(kept(renewed(*b, lease, 600s)));
}

TEST_CASE("of several endpoints the first has no TLS that fits, or refuses our certificate") {
  TlsFiles tls, theirs;
  EtcdServer server{tls.setup()};
  until_it_serves("etcds://" + server.host() + tls.items());
  const auto served = [&](const std::string& first, const std::string& items) {
    CHECK(one_of_five([&] {
      const auto p = poll(fmt::format("etcds://{},{}{}", first, server.host(), items));
      if (!p) UNSCOPED_INFO(p.error().message);
      return p.has_value();
    }));
  };
  {
    EtcdServer other{theirs.setup()};
    until_it_serves("etcds://" + other.host() + theirs.items());
    served(other.host(), tls.items());
    // one that is down may come back
    const auto later = poll(fmt::format("etcds://127.0.0.1:1,{}{}", other.host(), tls.items()));
    REQUIRE_FALSE(later);
    CHECK(later.error().code == Errc::unavailable);
  }
  EtcdServer strict{tls.setup({"--client-cert-auth", "--trusted-ca-file", theirs.ours.file()})};
  REQUIRE(becomes([&] {  // its gateway serves nobody: its own certificate is none of a client
    const auto p = poll("etcds://" + strict.host() + tls.with_own());
    return !p && p.error().code == Errc::denied;
  }));
  served(strict.host(), tls.items());
  served(strict.host(), tls.with_own());
  const auto none = poll("etcds://" + strict.host() + tls.with_own());
  REQUIRE_FALSE(none);
  INFO(none.error().message);
  CHECK(none.error().code == Errc::denied);
}

TEST_CASE("an answer that lacks what was asked for grants nothing") {
  const Stranger server{[](const Fd& peer) {
    for (std::string request; !(request = heard(peer)).empty();) {
      const auto id = request.find("\"ID\":");
      const std::string lease =
          id == request.npos
              ? ""
              : fmt::format(R"(,{},"TTL":"30")", request.substr(id, request.find(',', id) - id));
      const std::string body = fmt::format(R"({{"header":{{"revision":"5"}}{}}})", lease);
      say(peer, fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body));
    }
  }};
  const auto p = poll(fmt::format("etcd://127.0.0.1:{}", server.port()));
  REQUIRE_FALSE(p);
  CHECK(p.error().message.find("malformed reply") != std::string::npos);
}
