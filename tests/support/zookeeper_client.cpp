// SPDX-License-Identifier: Apache-2.0
#include "support/zookeeper_client.hpp"
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>
#include <atomic>
#include <stdexcept>

namespace dlock::test {

using namespace std::chrono_literals;
using zookeeper::Session;

std::unique_ptr<Backend> open_zookeeper(const std::string& url, const Settings& settings,
                                        std::string_view recipe) {
  return open_backend(zookeeper::factory, url, settings, recipe);
}

ZookeeperServer& shared_zookeeper() {
  static ZookeeperServer server{{.config = {}, .durable = false}};
  return server;
}

std::string fresh_chroot() {
  static std::atomic<unsigned> last{0};
  return fmt::format("/t{}", ++last);
}

RawZookeeper::RawZookeeper(const std::string& url, Duration timeout) {
  const auto parsed = Url::parse(url);
  if (!parsed) throw std::runtime_error(parsed.error().message);
  Settings settings;
  auto options = zookeeper::parse_options(*parsed, zookeeper::recipes[1], settings);
  if (!options) throw std::runtime_error(options.error().message);
  options_ = std::move(*options);
  session_ = std::make_unique<Session>(options_, timeout);
  if (const auto ok = session_->connect(Clock::now() + 60s); !ok)
    throw std::runtime_error(ok.error().message);
}

namespace {
const zookeeper::Reply& answer(Session& s, const Session::Call& call) {
  if (!s.finish({&call}, Clock::now() + 60s)) throw std::runtime_error("no answer");
  return call.reply();
}
}  // namespace

std::vector<std::string> RawZookeeper::children(const std::string& path) {
  const Session::Call call = session_->children(path);
  return answer(*session_, call).names;
}

std::string RawZookeeper::make(const std::string& path, const std::string& data, bool ephemeral,
                               bool sequential) {
  const int flags = sequential  ? ZOO_EPHEMERAL_SEQUENTIAL
                    : ephemeral ? ZOO_EPHEMERAL
                                : ZOO_PERSISTENT;
  const Session::Call call = session_->create(path, data, flags);
  const auto& r = answer(*session_, call);
  if (r.rc != ZOK) throw std::runtime_error(fmt::format("create {}: {}", path, zerror(r.rc)));
  return r.text;
}

void RawZookeeper::make_all(const std::string& path) {
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const Session::Call call = session_->create(path.substr(0, slash), "", ZOO_PERSISTENT);
    answer(*session_, call);
    if (slash == path.npos) return;
  }
}

int RawZookeeper::remove(const std::string& path) {
  const Session::Call call = session_->remove(path);
  return answer(*session_, call).rc;
}

zookeeper::Reply RawZookeeper::get(const std::string& path) {
  const Session::Call call = session_->get(path);
  return answer(*session_, call);
}

}  // namespace dlock::test
