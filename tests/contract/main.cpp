// SPDX-License-Identifier: Apache-2.0
// dlock_contract --recipe NAME [options of Catch2]
// Exits with 77 if every case was skipped: the server is not installed.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include "contract/helpers.hpp"
#include "contract/subject.hpp"
#include "support/catch/run.hpp"

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

}  // namespace

void add(Subject s) { all().push_back(std::move(s)); }
const Subject& subject() { return *chosen; }
void note_skip(const std::string& why) {
  ++skipped;
  std::printf("skipped: %s: %s\n", chosen->name.c_str(), why.c_str());
}

void skip_without(const std::string& program, int status) {
  if (status != 77) std::exit(1);
  throw Skip{program + " is not installed"};
}

std::unique_ptr<Backend> open_url(const std::string& text, const Settings& settings) {
  const auto url = Url::parse(text);
  if (!url) throw std::runtime_error(url.error().message);
  const auto choice = choose(*url, "");
  if (!choice) throw std::runtime_error(choice.error().message);
  auto backend = choice->factory->open(*url, *choice->traits, settings);
  if (!backend) throw std::runtime_error(backend.error().message);
  return std::move(*backend);
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
  const int failed = dlock::test::run_catch(argc - 2, argv + 2);
  if (failed) return failed;
  return cases > 0 && skipped == cases ? 77 : 0;
}
