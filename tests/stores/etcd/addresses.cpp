// SPDX-License-Identifier: Apache-2.0
// A name with several addresses, and several endpoints, of which one has no TLS that fits.
#include <netinet/in.h>
#include <sys/socket.h>
#include <atomic>
#include <thread>
#include "faults.hpp"
#include "support/certificates.hpp"
#include "support/name_service.hpp"
#include "util/fd.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

// 127.0.0.2:port takes connections, and answers each with these bytes, or with none.
class Stranger {
 public:
  Stranger(std::uint16_t port, std::string answer) : answer_(std::move(answer)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    const int yes = 1;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    REQUIRE(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    REQUIRE(::listen(listener_.get(), 8) == 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~Stranger() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  std::atomic<int> came{0};

 private:
  void serve() {
    for (std::vector<Fd> held;;) {
      Fd fd{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
      if (!fd) return;
      ++came;
      if (!answer_.empty()) (void)::send(fd.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL);
      held.push_back(std::move(fd));
    }
  }
  Fd listener_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const std::string answer_;
  std::thread thread_;
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
    Stranger stranger{port_of(server.host()), answer};
    CHECK(one_of_five([&] {  // within op_timeout
      const auto p =
          poll(fmt::format("etcds://two.test:{}{}", port_of(server.host()), tls.items()));
      if (!p) UNSCOPED_INFO(p.error().message);
      return p.has_value();
    }));
    CHECK(stranger.came > 0);
  }
}

TEST_CASE("a name of several members, of which the first is silent: the next one is asked") {
  EtcdServer server{in_memory()};
  name_service::answer("two.test", {"127.0.0.2", "127.0.0.1"});
  Stranger stranger{port_of(server.host()), ""};
  const auto b = open_etcd(fmt::format("etcd://two.test:{}", port_of(server.host())), quick(500ms));
  const Lease lease = take(*b, request(key("k"), 600s));
  CHECK(stranger.came > 0);
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
  Fd listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
  REQUIRE(::listen(listener.get(), 8) == 0);
  std::thread server{[&] {
    std::vector<Fd> held;
    char bytes[8192];
    for (Fd fd; (fd = Fd{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)});
         held.push_back(std::move(fd))) {
      for (ssize_t n = 0; (n = ::recv(fd.get(), bytes, sizeof bytes, 0)) > 0;) {
        const std::string_view request{bytes, static_cast<std::size_t>(n)};
        const auto id = request.find("\"ID\":");
        const std::string lease =
            id == request.npos
                ? ""
                : fmt::format(R"(,{},"TTL":"30")", request.substr(id, request.find(',', id) - id));
        const std::string body = fmt::format(R"({{"header":{{"revision":"5"}}{}}})", lease);
        const std::string reply =
            fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
        (void)::send(fd.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
      }
    }
  }};
  {
    const auto backend =
        open_etcd(fmt::format("etcd://127.0.0.1:{}", ntohs(at.sin_port)), quick(4s));
    const auto p = backend->enqueue(request(key("k"), 30s)).value()->poll(0s);
    CHECK_FALSE(p);
    if (!p) CHECK(p.error().message.find("malformed reply") != std::string::npos);
  }
  ::shutdown(listener.get(), SHUT_RDWR);
  server.join();
}
