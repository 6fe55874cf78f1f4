// SPDX-License-Identifier: Apache-2.0
// dlock_contract --recipe NAME [options of Catch2]
// Exits with 77 if every case was skipped: the server is not installed.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "contract/helpers.hpp"
#include "contract/subject.hpp"
#include "support/catch/run.hpp"
#include "support/client.hpp"
#include "support/server.hpp"

namespace dlock::contract {
namespace {

std::vector<Subject>& all() {
  static std::vector<Subject> subjects;
  return subjects;
}
const Subject* chosen = nullptr;
int skipped = 0, cases = 0;

struct Count : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseEnded(const Catch::TestCaseStats&) override { ++cases; }
};
CATCH_REGISTER_LISTENER(Count)

class StoreAt final : public Store {
 public:
  StoreAt(std::string url, const BackendFactory& factory, const Traits& traits,
          std::shared_ptr<const void> lives_as_long)
      : url_(std::move(url)),
        factory_(factory),
        traits_(traits),
        lives_as_long_(std::move(lives_as_long)) {}
  std::unique_ptr<Backend> open(const Settings& s) override {
    return test::open_backend(factory_, url_, s, traits_.recipe);
  }
  std::uint16_t port() const override {
    return static_cast<std::uint16_t>(std::stoi(url_.substr(port_at())));
  }
  std::unique_ptr<Backend> open_at(std::uint16_t port, const Settings& s) override {
    std::string url = url_;
    url.replace(port_at(), std::to_string(this->port()).size(), std::to_string(port));
    return test::open_backend(factory_, url, s, traits_.recipe);
  }

 private:
  std::size_t port_at() const { return url_.find("127.0.0.1:") + 10; }

  const std::string url_;
  const BackendFactory& factory_;
  const Traits& traits_;
  const std::shared_ptr<const void> lives_as_long_;
};

}  // namespace

void add(Subject s) { all().push_back(std::move(s)); }
const Subject& subject() { return *chosen; }
void note_skip(const std::string& why) {
  ++skipped;
  std::printf("skipped: %s: %s\n", chosen->name.c_str(), why.c_str());
}

void need_server(const char* missing) {
  if (!missing) return;
  if (test::without(missing) != test::skipped) std::exit(1);
  throw Skip{std::string{missing} + " is not installed"};
}

std::string fresh_prefix() {
  static int last = 0;
  return "prefix=c" + std::to_string(++last) + ":";
}
std::unique_ptr<Store> store_at(std::string url, const BackendFactory& factory,
                                const Traits& traits, std::shared_ptr<const void> lives_as_long) {
  return std::make_unique<StoreAt>(std::move(url), factory, traits, std::move(lives_as_long));
}

}  // namespace dlock::contract

int main(int argc, char** argv) {
  using namespace dlock::contract;
  const bool named = argc > 2 && std::strcmp(argv[1], "--recipe") == 0;
  const std::string recipe = named ? argv[2] : "";
  const auto found =
      std::find_if(all().begin(), all().end(), [&](const Subject& s) { return s.name == recipe; });
  if (found == all().end()) {
    std::fprintf(stderr, "no recipe '%s'; there are:", recipe.c_str());
    for (const Subject& s : all()) std::fprintf(stderr, " %s", s.name.c_str());
    std::fprintf(stderr, "\n");
    return 64;
  }
  chosen = &*found;
  argv[2] = argv[0];
  ::setenv("LD_PRELOAD", CLOCK_SHIFT, 1);  // of its servers: they have its clock
  const int failed = dlock::test::run_catch(argc - 2, argv + 2);
  if (failed) return failed;
  return cases > 0 && skipped == cases ? 77 : 0;
}
