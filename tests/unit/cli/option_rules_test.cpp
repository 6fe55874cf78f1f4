// SPDX-License-Identifier: Apache-2.0
// The options of one command line, its variables and its files together.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include "cli/options/verbs.hpp"
#include "cli/say.hpp"
#include "unit/cli/parsed.hpp"

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

TEST_CASE("an error on the command line is usage, one in a variable is config") {
  const std::vector<std::string> good{"--key", "k", "--", "true"},
      both{"--key", "k", "-n", "-w", "3", "--", "true"};
  CHECK(code_of(Verb::run, both, {}, "run: --nonblock and --wait contradict each other") ==
        Errc::usage);
  CHECK(code_of(Verb::run, good, {{"DLOCK_NONBLOCK", "1"}, {"DLOCK_WAIT", "3"}},
                "DLOCK_NONBLOCK and DLOCK_WAIT") == Errc::config);
  CHECK(code_of(Verb::run, good, {{"DLOCK_WAIT", "soon"}}, "DLOCK_WAIT: 'soon'") == Errc::config);
  CHECK(code_of(Verb::run, good, {{"DLOCK_WAIT", ""}}, "DLOCK_WAIT: is set but empty") ==
        Errc::config);
  CHECK(code_of(Verb::run, good, {{"DLOCK_QUIET", "maybe"}}, "DLOCK_QUIET: 'maybe'") ==
        Errc::config);
}

TEST_CASE("a variable of an option that is written otherwise now is config, and says how") {
  const std::vector<std::string> good{"--key", "k", "--", "true"};
  CHECK(code_of(Verb::run, good, {{"DLOCK_NO_FOREGROUND", "1"}},
                "DLOCK_NO_FOREGROUND no longer exists: use DLOCK_FOREGROUND") == Errc::config);
  CHECK(code_of(Verb::run, good, {{"DLOCK_EXCLUSIVE", "1"}},
                "DLOCK_EXCLUSIVE no longer exists: leave it out") == Errc::config);
  const Variables set(Values{{"DLOCK_NO_FOREGROUND", "1"}});  // no option of inspect
  CHECK(Words(Verb::inspect, {}).parse());
}

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

TEST_CASE("whether lines for eval were asked for is known of a wrong command line, too") {
  const auto asked = [](const std::vector<std::string>& words, const Values& variables) {
    const Variables set(variables);
    std::vector<std::string> all{"dlock", "acquire"};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> argv;
    for (std::string& word : all) argv.push_back(word.data());
    return asks_for_env(static_cast<int>(argv.size()), argv.data());
  };
  CHECK(asked({"--bogus", "--output", "env"}, {}));
  CHECK(asked({"--output=env", "--ttl", "soon"}, {}));
  CHECK(asked({"--key"}, {{"DLOCK_OUTPUT", "env"}, {"DLOCK_WAIT", "soon"}}));
  CHECK_FALSE(asked({"--output"}, {}));
  CHECK_FALSE(asked({"--output=json", "env"}, {}));
  CHECK_FALSE(asked({"--", "--output=env"}, {}));

  const Variables none({});
  Words words(Verb::acquire, {"k", "--output", "env"});
  const auto right = words.parse();
  REQUIRE(right);
  CHECK(right->env_asked);
  Words text(Verb::acquire, {"k", "--reason", "--output"});
  const auto other = text.parse();
  REQUIRE(other);
  CHECK_FALSE(other->env_asked);
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
  CHECK(called(*o, "ttl") == "DLOCK_TTL");
  CHECK(called(*o, "limit") == "--limit");
  CHECK(blame(*o, "ttl") == Errc::config);
  CHECK(blame(*o, "limit") == Errc::usage);
}

TEST_CASE("missing and contradicting options") {
  const auto usage = [](Verb verb, const std::vector<std::string>& words, const std::string& with) {
    CHECK(code_of(verb, words, {}, with) == Errc::usage);
  };
  usage(Verb::run, {"--", "true"}, "run: --key is missing");
  usage(Verb::run, {"--key", "k"}, "-- and the command are missing");
  usage(Verb::run, {"--key", "k", "--"}, "the command after -- is missing");
  usage(Verb::run, {"--key", "k", "--limit", "3", "-s", "--", "true"}, "--limit and --shared");
  usage(Verb::acquire, {"--key", "k", "--keep", "--hold"}, "--keep and --hold");
  usage(Verb::acquire, {"--key", "k", "--watch-pid", "3"}, "--watch-pid goes with --keep");
  usage(Verb::release, {"--key", "k", "--token", "3"}, "--token goes with --force");
  usage(Verb::check, {}, "SEQUENCER or --key is missing");
  usage(Verb::check, {"S", "--key", "k"}, "either a sequencer or --key");
  usage(Verb::fence, {"--token", "3", "--", "true"}, "--state is missing");
  usage(Verb::inspect, {"--check"}, "--check needs a key");
  usage(Verb::inspect, {"k", "--held"}, "--held chooses from the list");
  usage(Verb::inspect, {"-J", "--csv"}, "--json and --csv");
  usage(Verb::bench, {"-d", "1s", "-N", "5"}, "--duration and --ops");
}
