// SPDX-License-Identifier: Apache-2.0
// The options of one command line, its variables and its files together.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include "cli/options/verbs.hpp"
#include "cli/say.hpp"
#include "pure/cli/parsed.hpp"

using namespace dlock;
using namespace dlock::cli;
using namespace dlock::test;

namespace {

// Variables for the length of a scope, in which no configuration file of a user is read.
class Variables {
 public:
  explicit Variables(std::map<std::string, std::string> values) : values_(std::move(values)) {
    values_.emplace("XDG_CONFIG_HOME", "/nonexistent");
    for (const auto& [name, value] : values_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const auto& [name, value] : values_) ::unsetenv(name.c_str());
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::map<std::string, std::string> values_;
};

using Values = std::map<std::string, std::string>;

Errc code_of(Verb verb, const std::vector<std::string>& words, const Values& variables,
             const std::string& with) {
  const Variables set(variables);
  const auto o = Words(verb, words).parse();
  INFO(text_of(o));
  REQUIRE_FALSE(o);
  CHECK(o.error().message.find(with) != std::string::npos);
  return o.error().code;
}

}  // namespace

TEST_CASE("the only word of a command is its key, or the sequencer to check") {
  const Variables none({});
  for (const Verb v : {Verb::acquire, Verb::renew, Verb::release}) {
    INFO(info(v).name);
    Words word(v, {"nightly"}), option(v, {"--key", "nightly"});
    const auto a = word.parse(), b = option.parse();
    REQUIRE(a);
    REQUIRE(b);
    CHECK(a->keys == std::vector<std::string_view>{"nightly"});
    CHECK(a->keys == b->keys);
    CHECK_FALSE(a->operand);
    CHECK(code_of(v, {"nightly", "--key", "daily"}, {},
                  "unexpected argument 'nightly': the key was given by --key") == Errc::usage);
  }
  for (const std::vector<std::string>& with : {std::vector<std::string>{"--token", "7", "nightly"},
                                               std::vector<std::string>{"nightly", "--handle=h"}}) {
    Words words(Verb::check, with);
    const auto o = words.parse();
    REQUIRE(o);
    CHECK(o->keys == std::vector<std::string_view>{"nightly"});
    CHECK_FALSE(o->operand);
  }
  Words words(Verb::check, {"v1:file.lease:k:X:3"});
  const auto sequencer = words.parse();
  REQUIRE(sequencer);
  CHECK(sequencer->operand);
  CHECK(sequencer->keys.empty());
  CHECK(code_of(Verb::run, {"nightly", "--", "true"}, {}, "the key goes after --key") ==
        Errc::usage);
}

TEST_CASE("a busy key cannot be a success where lines for eval are asked for") {
  CHECK(code_of(Verb::acquire, {"k", "--output=env", "-E0"}, {},
                "acquire: --conflict-exit-code 0 and --output env") == Errc::usage);
  CHECK(code_of(Verb::acquire, {"k", "--output=env"}, {{"DLOCK_CONFLICT_EXIT_CODE", "0"}},
                "DLOCK_CONFLICT_EXIT_CODE 0 and --output env") == Errc::config);
}

TEST_CASE("the command line decides a choice as a whole") {
  const Variables set(
      {{"DLOCK_WAIT", "soon"}, {"DLOCK_SHARED", "1"}, {"DLOCK_TTL", "1m"}, {"DLOCK_VERBOSE", "0"}});
  Words words(Verb::run, {"--key", "k", "-n", "--limit=3", "--", "true"});
  const auto o = words.parse();
  REQUIRE(o);
  CHECK(o->wait == Duration{});  // DLOCK_WAIT is not even read
  CHECK(o->mode == Mode::permit);
  CHECK(o->limit == 3);
  CHECK(o->ttl == std::chrono::minutes{1});
  CHECK(o->verbosity == 0);

  CHECK(given_by_flag(*o, "limit"));
  CHECK(given(*o, "ttl"));
  CHECK_FALSE(given_by_flag(*o, "ttl"));
  CHECK_FALSE(given(*o, "shared"));
  CHECK_FALSE(given(*o, "verbose"));  // set to "no"
  CHECK(display_name(*o, "ttl") == "DLOCK_TTL");
  CHECK(display_name(*o, "limit") == "--limit");
  CHECK(error_code_of(*o, "ttl") == Errc::config);
  CHECK(error_code_of(*o, "limit") == Errc::usage);
}
