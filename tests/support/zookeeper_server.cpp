// SPDX-License-Identifier: Apache-2.0
#include "support/zookeeper_server.hpp"
#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include "util/fd.hpp"

namespace dlock::test {
namespace fs = std::filesystem;

using namespace std::chrono_literals;

namespace {
constexpr const char* jar = "/usr/share/java/zookeeper.jar";
}

const char* missing_zookeeper() {
  if (!installed("java")) return "java";
  return ::access(jar, R_OK) == 0 ? nullptr : "zookeeper.jar (libzookeeper-java)";
}

ZookeeperServer::ZookeeperServer(Setup setup)
    : setup_(std::move(setup)), port_(setup_.port != 0 ? setup_.port : free_port()) {
  const std::string conf = directory_.path() + "/zoo.cfg";
  fs::create_directory(data());
  write_file(conf,
             fmt::format(
                 "tickTime={}\ndataDir={}\nclientPort={}\nclientPortAddress={}\nadmin.enableServer="
                 "false\n4lw.commands.whitelist=*\n"
                 "maxClientCnxns=0\nmaxSessionTimeout=120000\npreAllocSize=64\n",
                 setup_.tick / 1ms, data(), port_, setup_.address));
  for (const auto& line : setup_.config) configure(line);
  if (setup_.id != 0) write_file(data() + "/myid", fmt::format("{}\n", setup_.id));
  start();
}

std::string ZookeeperServer::host() const { return fmt::format("{}:{}", setup_.address, port_); }

void ZookeeperServer::configure(std::string_view line) {
  std::ofstream(directory_.path() + "/zoo.cfg", std::ios::app) << line << '\n';
}

void ZookeeperServer::start() {
  std::vector<std::string> words = setup_.prefix;
  for (const std::string_view w :
       {"java", "-Xms16m", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
        "-Dzookeeper.admin.enableServer=false"})
    words.emplace_back(w);
  if (!setup_.durable) words.emplace_back("-Dzookeeper.forceSync=no");
  words.insert(words.end(), {"-cp", directory_.path() + ":" + jar,
                             setup_.id != 0 ? "org.apache.zookeeper.server.quorum.QuorumPeerMain"
                                            : "org.apache.zookeeper.server.ZooKeeperServerMain",
                             directory_.path() + "/zoo.cfg"});
  process_ = ServerProcess{start_server(words, {.log = directory_.path() + "/out"})};
  if (setup_.wait_ready) wait_ready();
}

void ZookeeperServer::wait_ready() const {
  for (const Deadline until = Clock::now() + 60s; Clock::now() < until; ::usleep(20000))
    if (word("srvr").find("Mode:") != std::string::npos) return;
  throw std::runtime_error("ZooKeeper does not start");
}

std::string ZookeeperServer::word(std::string_view four) const {
  const Fd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port_);
  ::inet_pton(AF_INET, setup_.address.c_str(), &to.sin_addr);
  const timeval second{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return {};
  if (::send(fd.get(), four.data(), four.size(), MSG_NOSIGNAL) < 0) return {};
  std::string text;
  char block[4096];
  for (ssize_t n = 0; (n = ::recv(fd.get(), block, sizeof block, 0)) > 0;)
    text.append(block, static_cast<std::size_t>(n));
  return text;
}

std::string ZookeeperServer::field(std::string_view name) const {
  const std::string text = word("srvr");
  const std::size_t at = text.find(fmt::format("{}: ", name));
  if (at == text.npos) return {};
  const std::size_t from = at + name.size() + 2;
  return text.substr(from, text.find('\n', from) - from);
}

ZookeeperEnsemble::ZookeeperEnsemble(Setup setup) {
  struct Ports {
    std::uint16_t client, quorum, election;
  };
  std::vector<Ports> ports;
  const bool own_addresses = setup.addresses[0] != setup.addresses[1];
  for (int i = 0; i < 3; ++i)
    ports.push_back(own_addresses ? Ports{2181, 2888, 3888}
                                  : Ports{free_port(), free_port(), free_port()});
  for (std::size_t i = 0; i < 3; ++i) {
    ZookeeperServer::Setup one;
    one.tick = setup.tick;
    one.address = setup.addresses[i];
    one.prefix = setup.prefixes[i];
    one.port = ports[i].client;
    one.id = static_cast<int>(i) + 1;
    one.wait_ready = false;
    one.config = {"initLimit=20", "syncLimit=10"};
    for (std::size_t j = 0; j < 3; ++j)
      one.config.push_back(fmt::format("server.{}={}:{}:{}", j + 1, setup.addresses[j],
                                       ports[j].quorum, ports[j].election));
    servers_.push_back(std::make_unique<ZookeeperServer>(std::move(one)));
  }
  leader();
}

std::size_t ZookeeperEnsemble::leader() {
  for (const Deadline until = Clock::now() + 120s; Clock::now() < until; ::usleep(50000)) {
    std::size_t leader = 3, followers = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string mode = servers_[i]->field("Mode");
      if (mode == "leader") leader = i;
      followers += mode == "follower";
    }
    if (leader < 3 && followers == 2) return leader;
  }
  throw std::runtime_error("the ensemble has no leader with two followers");
}

std::size_t ZookeeperEnsemble::follower(std::size_t not_this) {
  const std::size_t l = leader();
  for (std::size_t i = 0; i < 3; ++i)
    if (i != l && i != not_this) return i;
  return 3;
}

std::string ZookeeperEnsemble::url() const {
  std::string text = "zookeeper://";
  for (const auto& s : servers_) text += (text.ends_with('/') ? "" : ",") + s->host();
  return text;
}

}  // namespace dlock::test
