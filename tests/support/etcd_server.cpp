// SPDX-License-Identifier: Apache-2.0
#include "support/etcd_server.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

namespace dlock::test {
namespace fs = std::filesystem;

using namespace std::chrono_literals;

namespace {

Url parse(const std::string& text) {
  auto url = Url::parse(text);
  if (!url) throw std::runtime_error(url.error().message);
  return std::move(*url);
}

}  // namespace

const char* missing_etcd() { return installed("etcd") ? nullptr : "etcd"; }

EtcdServer::EtcdServer(Setup setup)
    : setup_(std::move(setup)), directory_(data_place(setup_.durable)) {
  for (std::size_t i = 0; i < setup_.members; ++i)
    members_.push_back({.port = free_port(), .peer = free_port()});
  for (std::size_t i = 0; i < setup_.members; ++i) start(i);
  wait_ready();
}

std::string EtcdServer::host(std::size_t member) const {
  return fmt::format("127.0.0.1:{}", members_[member].port);
}

std::string EtcdServer::url_of(std::vector<std::size_t> members) const {
  std::string text = "etcd://";
  for (const std::size_t i : members) text += (text.ends_with('/') ? "" : ",") + host(i);
  return text;
}

std::string EtcdServer::url() const {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < size(); ++i) all.push_back(i);
  return url_of(all);
}

void EtcdServer::start(std::size_t member) {
  std::string cluster;
  for (std::size_t i = 0; i < size(); ++i)
    cluster += fmt::format("{}m{}=http://127.0.0.1:{}", i == 0 ? "" : ",", i, members_[i].peer);
  const std::string client = fmt::format("{}://{}", setup_.scheme, host(member));
  const std::string peer = fmt::format("http://127.0.0.1:{}", members_[member].peer);
  std::vector<std::string> words = {"etcd",
                                    "--name",
                                    fmt::format("m{}", member),
                                    "--data-dir",
                                    fmt::format("{}/m{}", directory_.path(), member),
                                    "--listen-client-urls",
                                    client,
                                    "--advertise-client-urls",
                                    client,
                                    "--listen-peer-urls",
                                    peer,
                                    "--initial-advertise-peer-urls",
                                    peer,
                                    "--initial-cluster",
                                    cluster,
                                    "--initial-cluster-token",
                                    directory_.path(),
                                    "--log-level",
                                    "warn"};
  words.insert(words.end(), setup_.flags.begin(), setup_.flags.end());
  members_[member].process = ServerProcess{
      start_server(words, {.log = fmt::format("{}/log{}", directory_.path(), member)})};
}

void EtcdServer::kill(std::size_t member) {
  members_[member].process.kill();
  members_[member].stopped = false;
}

void EtcdServer::empty(std::size_t member) {
  fs::remove_all(fmt::format("{}/m{}", directory_.path(), member));
}

void EtcdServer::freeze(std::size_t member) {
  members_[member].process.freeze();
  members_[member].stopped = true;
}

void EtcdServer::thaw(std::size_t member) {
  members_[member].process.thaw();
  members_[member].stopped = false;
}

etcd::Client EtcdServer::client(std::size_t member) const {
  Settings settings;
  settings.op_timeout = 2s;
  return etcd::Client{
      etcd::parse_options(parse(url_of({member})), etcd::recipes[0], settings).value()};
}

void EtcdServer::wait_ready() {
  const Deadline until = Clock::now() + 60s;
  for (std::size_t i = 0; i < size(); ++i) {
    if (members_[i].process.pid() <= 0 || members_[i].stopped || setup_.scheme != "http") continue;
    for (;; ::usleep(20000)) {
      if (client(i).grant("start", 2s, Clock::now() + 2s)) break;
      if (Clock::now() > until) throw std::runtime_error("etcd does not start");
    }
  }
}

std::size_t EtcdServer::leader() {
  for (const Deadline until = Clock::now() + 60s; Clock::now() < until; ::usleep(20000)) {
    std::size_t found = size();
    std::string leader;
    bool agreed = true;
    for (std::size_t i = 0; i < size(); ++i) {
      if (members_[i].process.pid() <= 0 || members_[i].stopped) continue;
      const auto status = client(i).query("look", "/v3/maintenance/status", etcd::Json::object(),
                                          Clock::now() + 2s);
      const std::string now = status ? etcd::text_of(*status, "leader") : "";
      agreed &= !now.empty() && now != "0" && (leader.empty() || leader == now);
      leader = now;
      if (status && etcd::text_of(etcd::member(*status, "header"), "member_id") == now) found = i;
    }
    if (agreed && found < size()) return found;
  }
  throw std::runtime_error("etcd has no leader");
}

std::size_t EtcdServer::follower(std::size_t not_this) {
  const std::size_t l = leader();
  for (std::size_t i = 0; i < size(); ++i)
    if (i != l && i != not_this) return i;
  return size();
}

std::string EtcdServer::etcdctl(const std::vector<std::string>& words) const {
  std::string line = fmt::format(
      "ETCDCTL_API=3 etcdctl --command-timeout=60s --dial-timeout=60s --endpoints=http://{}",
      host(0));
  for (const std::string& w : words) line += " '" + w + "'";
  std::FILE* out = ::popen((line + " 2>&1").c_str(), "re");
  if (!out) throw std::runtime_error("no etcdctl");
  std::string text;
  std::array<char, 4096> block{};
  for (std::size_t n = 0; (n = std::fread(block.data(), 1, block.size(), out)) > 0;)
    text.append(block.data(), n);
  if (::pclose(out) != 0) throw std::runtime_error(line + ": " + text);
  return text;
}

std::unique_ptr<Backend> open_etcd(const std::string& url, const Settings& settings,
                                   std::string_view recipe) {
  return open_backend(etcd::factory, url, settings, recipe);
}

EtcdServer& shared_etcd() {
  static EtcdServer server{{.members = 1, .durable = false, .flags = {}}};
  return server;
}

std::string fresh_etcd_path() {
  static std::atomic<unsigned> last{0};
  return fmt::format("/t{}", ++last);
}

}  // namespace dlock::test
