// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <set>
#include "cli/options/option_table.hpp"
#include "cli/options/verbs.hpp"
#include "pure/cli/parsed.hpp"
#include "pure/message.hpp"

using namespace dlock;
using namespace dlock::cli;
using namespace dlock::test;

namespace {

const struct {
  Verb verb;
  std::vector<std::string> words;
  std::string wanted;  // the outcome begins with it
} command_lines[] = {
    {Verb::run,
     {"--key=k", "-nw3m", "--", "sh", "-n", "--", ""},
     "key=k nonblock= wait=3m | <sh> <-n> <--> <>"},
    {Verb::run, {"--key", "-n", "--key", "--x=", "--"}, "key=-n key=--x= |"},
    {Verb::run, {"--reason=", "--key", "k"}, "reason= key=k "},
    {Verb::run,
     {"--reason==", "--reason=[a,b]", "-vv"},
     "reason== reason=[a,b] verbose= verbose= "},
    {Verb::run, {"-q", "-v", "-s"}, "verbose= shared= "},
    {Verb::run, {"-sx"}, "error: run: unknown option '-x'; did you mean no option at all (a lock"},
    {Verb::acquire,
     {"--exclusive"},
     "error: acquire: unknown option '--exclusive'; did you mean no"},
    {Verb::inspect, {"-x"}, "error: inspect: unknown option '-x' ("},
    {Verb::run, {"--foreground=no", "--key", "k"}, "foreground=no key=k "},
    {Verb::run,
     {"--foreground", "--", "true"},
     "error: --foreground: needs a value, as in --foreg"},
    {Verb::run, {"--foreground", "yes"}, "error: --foreground: needs a value, as in --foregr"},
    {Verb::run, {"--foreground="}, "error: --foreground: needs a value, as in --foreground=yes"},
    {Verb::run, {"--foreground=on"}, "error: --foreground: 'on' is neither auto, yes nor no"},
    {Verb::run, {"--status", "3", "--status=./3"}, "status=3 status=./3 "},
    {Verb::run, {"--status", "99999999999"}, "error: --status: '99999999999' is not a whole"},
    {Verb::run, {"--status="}, "error: --status: must not be empty"},
    {Verb::config, {"--report", "--ttl", "3s"}, "report= ttl=3s "},
    {Verb::config, {"k"}, "error: config: unexpected argument 'k'"},
    {Verb::run, {"-w", "-1"}, "error: --wait: '-1'"},
    {Verb::run, {"-nw-1"}, "error: --wait: '-1'"},
    {Verb::run, {"-w=3"}, "error: --wait: '=3'"},
    {Verb::run, {"-E", "256"}, "error: --conflict-exit-code: '256'"},
    {Verb::run, {"--backend=", "--key", "k"}, "error: --backend: must not be empty"},
    {Verb::run, {"--key", "k", "--wait", "--", "true"}, "error: --wait: needs a value, D"},
    {Verb::run, {"-nw"}, "error: --wait: needs a value, D"},
    {Verb::run, {"--verbose=3"}, "error: --verbose: '3' is too much, it takes no value"},
    {Verb::run, {"--verbose="}, "error: --verbose: '' is too much"},
    {Verb::run, {"--verbose=true"}, "error: --verbose: 'true' is too much"},
    {Verb::run, {"--non"}, "error: run: unknown option '--non'; did you mean --nonblock? ("},
    {Verb::run,
     {"--kye", "k", "-w", "x"},
     "error: run: unknown option '--kye'; did you mean --key?"},
    {Verb::run, {"-w", "x", "--kye"}, "error: --wait: 'x'"},
    {Verb::run, {"-nZ"}, "error: run: unknown option '-Z' ("},
    {Verb::run, {"-key", "k"}, "error: run: unknown option '-key'; did you mean --key?"},
    {Verb::run, {"-k", "-key"}, "error: --kill-after: '-key'"},
    {Verb::run, {"--reason", "-key"}, "reason=-key "},
    {Verb::run, {"-n-verbose"}, "error: run: unknown option '--' ("},
    {Verb::run, {"-n-", "--key", "k"}, "error: run: unknown option '--' ("},
    {Verb::run,
     {"--key", "k", "echo", "--", "a"},
     "error: run: unexpected argument 'echo': the command goes after --"},
    {Verb::run, {"echo"}, "error: run: unexpected argument 'echo': put -- before the command"},
    {Verb::run, {"--key", "k", "--key", "k"}, "error: --key: 'k' twice"},
    {Verb::check,
     {"--wait", "3"},
     "error: '--wait' is an option of run, acquire, release, fence, not of check"},
    {Verb::acquire, {"--csv"}, "error: '--csv' is an option of inspect, not of acquire"},
    {Verb::acquire, {"k", "-n"}, "nonblock= operand=k"},
    {Verb::acquire, {"-n", "--", "-k"}, "nonblock= operand=-k"},
    {Verb::renew, {"a", "b"}, "error: renew: unexpected argument 'b'; usage: dlock renew"},
    {Verb::inspect, {"--key", "svc-*"}, "key=svc-* operand=svc-*"},
    {Verb::inspect, {"a", "--key", "b"}, "error: --key: 'a' and 'b': one key or pattern"},
    {Verb::inspect, {"--key", "a", "--key", "b"}, "error: --key: 'a' and 'b': one key or pattern"},
    {Verb::inspect, {"--watch", "k"}, "watch= operand=k"},
    {Verb::inspect, {"--watch=5s", "-"}, "watch=5s operand=-"},
    {Verb::inspect, {"--", "-J"}, "operand=-J"},
    {Verb::inspect, {"-5"}, "error: inspect: unknown option '-5' ("},
    {Verb::inspect, {"a", "b"}, "error: inspect: unexpected argument 'b'"},
    {Verb::inspect, {"++", "%%"}, "error: inspect: unexpected argument '%%'"},
    {Verb::bench, {"-c4", "-dN", "--hold=1s"}, "error: --duration: 'N'"},
    {Verb::bench, {"-b", "file:", "-b", "file:/x", "-N9"}, "backend=file: backend=file:/x ops=9 "},
};

}  // namespace

TEST_CASE("command lines, with the rows that they name and with all rows") {
  for (const auto& line : command_lines) {
    INFO(info(line.verb).name << " " << line.words.front() << " ...");
    Words words(line.verb, line.words);
    const std::string named = text_of(words.read(Rows::named));
    CHECK(named.substr(0, line.wanted.size()) == line.wanted);
    CHECK(text_of(words.read(Rows::all)) == named);
  }
}

TEST_CASE("all rows of each verb have names of their own") {
  for (const VerbInfo& v : verbs()) {
    INFO(v.name);
    Words words(v.verb, {"--help"});
    // CLI11 refuses a name that is there already
    CHECK(text_of(words.read(Rows::all)) == "help= ");
    std::set<std::string_view> names;
    for (const Option& o : option_table())
      if (belongs(o, v.verb)) CHECK(names.insert(o.name).second);
  }
}

TEST_CASE("every option is known to its verbs, by its long name and its letter") {
  for (const VerbInfo& v : verbs())
    for (const Option& o : option_table()) {
      if (!belongs(o, v.verb)) continue;
      std::vector<std::string> forms{"--" + std::string(o.name)};
      if (o.letter) forms.push_back({'-', o.letter});
      for (const std::string& form : forms) {
        INFO(v.name << " " << form);
        const std::string text = text_of(Words(v.verb, {form, "@"}).read(Rows::named));
        CHECK(text.find("unknown option") == text.npos);
        CHECK(text.find("is an option of") == text.npos);
      }
    }
}

TEST_CASE("config reads each name that any command reads, once, by its own row if it has one") {
  std::set<std::string_view> names, all;
  for (const Option& o : option_table()) {
    INFO(o.name);
    if (o.has_variable) all.insert(o.name);
    if (reads(o, Verb::config)) CHECK(names.insert(o.name).second);
    if (belongs(o, Verb::config)) CHECK(reads(o, Verb::config) == o.has_variable);
  }
  CHECK(names == all);
}

TEST_CASE("every error on the command line is one line and status 64") {
  for (const auto& line : command_lines) {
    const auto o = Words(line.verb, line.words).read(Rows::named);
    if (!o) CHECK(is_good_message(o.error()));
  }
  const auto escape = Words(Verb::run, {"--\x1b[2J"}).read(Rows::named);
  REQUIRE_FALSE(escape);
  CHECK(is_good_message(escape.error()));
}

TEST_CASE("values are views of argv, whose order stays") {
  std::string verb = "run", first = "--key=abc", second = "-nwx", dashes = "--";
  char* argv[] = {verb.data(), first.data(), dashes.data(), second.data(), nullptr};
  Options o;
  REQUIRE(read_arguments(o, 4, argv));
  CHECK(o.keys.front().data() == first.data() + 6);
  CHECK(o.command == argv + 3);
  CHECK(argv[1] == first.data());
}
