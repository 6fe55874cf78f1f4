// SPDX-License-Identifier: Apache-2.0
// Whole command lines with their variables, as a shell has them: what is refused, with one clear
// line and the right status, before anything is asked of a store; and what is accepted.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>
#include "cli/command.hpp"
#include "store/factory.hpp"
#include "support/temp_dir.hpp"

using namespace dlock;

namespace {

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

// Words with spaces between; '..' is one word.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  bool quoted = false, begun = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      begun = false;
      continue;
    }
    if (!begun) words.emplace_back();
    begun = true;
    if (c != '\'') words.back() += c;
  }
  return words;
}

struct Answer {
  int status = -1;
  std::string out, err;
};

// dlock with this line in a process of its own, with an empty standard input. $DIR is `dir`.
Answer answer_to(const std::string& dir, const std::string& line) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (char** e = environ; *e;) {
      const std::string name{*e, std::string_view{*e}.find('=')};
      if (name.starts_with("DLOCK_")) ::unsetenv(name.c_str());
      else ++e;
    }
    ::setenv("DLOCK_BACKEND", ("file:" + dir + "/locks").c_str(), 1);
    ::setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    std::vector<std::string> words = words_of(replaced(line, "$DIR", dir));
    for (std::size_t equals = 0; !words.empty() && words.front().starts_with("DLOCK_") &&
                                 (equals = words.front().find('=')) != std::string::npos;) {
      ::setenv(words.front().substr(0, equals).c_str(), words.front().c_str() + equals + 1, 1);
      words.erase(words.begin());
    }
    words.insert(words.begin(), "dlock");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    for (const auto& [fd, name] : {std::pair{1, "/out"}, {2, "/err"}})
      ::dup2(::open((dir + name).c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), fd);
    const auto outcome = cli::command_line(static_cast<int>(words.size()), argv.data());
    ::_exit(outcome.by_signal ? 255 : outcome.value);
  }
  const auto text_of = [](const std::string& path) {
    std::ifstream file(path);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(dir + "/out"),
          text_of(dir + "/err")};
}

struct Row {
  int status;
  const char *words, *line;  // words: in what is printed
};

bool built_with(const std::string& line) {
  for (const AbsentBackend& absent : absent_backends())
    for (const std::string_view scheme : absent.schemes)
      if (line.find(std::string{scheme} + "://") != line.npos) return false;
  return true;
}

const std::string zeros(32, '0');

}  // namespace

TEST_CASE("refused with one line, and no store is asked") {
  static const Row rows[] = {
      {64, "did you mean run?", "rnu"},
      {64, "unknown command 'list'; did you mean inspect?", "list"},
      {64, "did you mean inspect?", "status k"},
      {64, "did you mean inspect --doctor?", "doctor"},
      {64, "did you mean inspect?", "help inspct"},
      {64, "help: unexpected argument 'x'", "help run x"},
      {64, "did you mean --version?", "version"},
      {64, "the command comes first", "-q run --key k -- true"},
      {64, "unknown command ''", "''"},
      {64, "\\x1b[2J", "\x1b[2J"},
      {64, "--version: unexpected argument 'run'", "--version run"},
      // -h and -V count only where nothing else is on the command line
      {64, "-h: unexpected argument 'db1'; did you mean --help?", "-h db1"},
      {64, "-V: unexpected argument 'run'; did you mean --version?", "-V run"},
      {64, "run: unknown option '-h'; did you mean --help?", "run -h db1"},
      {64, "unknown option '-h'; did you mean --help?", "run --key k -h -- true"},
      {64, "unknown option '-V'; did you mean dlock --version?", "run -V --key k -- true"},
      {64, "unknown option '-h'", "run -nh"},
      {64, "unknown option '-h'", "run -h --"},
      {64, "unknown option '--bogus'", "run --bogus --key k -- true"},
      {64, "\\xff", "run -\xff --key k -- true"},
      // names that other programs use get a hint
      {64, "did you mean --wait or --max-run?", "run --timeout 3 --key k -- true"},
      {64, "did you mean --wait?", "acquire --timeout 3 --key k"},
      {64, "unknown option '--timeout' (", "inspect --timeout 3"},
      {64, "did you mean --nonblock?", "run --nb --key k -- true"},
      {64, "did you mean --key?", "run --name k -- true"},
      {64, "unknown option '-wait'; did you mean --wait?", "run --key k -wait=3 -- true"},
      {64, "unknown option '-json'; did you mean --json?", "inspect -json"},
      // an option of another command is refused with that command's name
      {64, "'--hold' is an option of acquire, not of run", "run --hold --key k -- true"},
      {64,
       "'-b' is an option of run, acquire, renew, release, check, inspect, bench, config, not of "
       "fence",
       "fence -b file: --state f --token 3 -- true"},
      {64, "--command: must not be empty", "run --key k -c ''"},
      {64, "the command after -- is missing", "run --key k --"},
      {64, "unexpected argument 'true'", "acquire --key k -- true"},
      // keys
      {64, "--key is missing", "acquire"},
      {64, "--key is missing", "renew --handle h1:file.lease:H0"},
      {64, "--key is missing", "release"},
      {64, "--key '' is empty", "run --key '' -- true"},
      // durations
      {64, "--wait: '5 m'", "run --key k --wait '5 m' -- true"},
      {64, "--ttl: '0' must be longer than 0", "run --key k --ttl 0 -- true"},
      {64, "--op-timeout: '0s' must be longer than 0", "run --key k --op-timeout 0s -- true"},
      {64, "60s", "run --key k --lock-delay 61 -- true"},
      {64, "hour, day, week or month", "run --key k --once-per fortnight -- true"},
      {64, "longer than 0", "run --key k --once-per 0 -- true"},
      {78, "DLOCK_ONCE_PER", "DLOCK_ONCE_PER=never run --key k -- true"},
      {64, "?short_ttl=yes", "acquire -q --key k --ttl 1.9s"},
      {64, "?short_ttl=yes", "renew --key k --ttl 1.9s --handle h1:file.lease:H0"},
      {64, "--lock-delay 30s: too long for --ttl 6s",
       "acquire -b zookeeper://h --key k --ttl 6s --lock-delay 30s"},
      {64, "?tick=", "run -b zookeeper://h --key k --ttl 6s --lock-delay 30s -- true"},
      // what is wrong in a file
      {78, "wat.toml:1: wat: there is no such option",
       "run --config $DIR/wat.toml --key k -- true"},
      {78, "soon.toml:2: wait", "run --config $DIR/soon.toml --key k -- true"},
      {78, "cannot be in a configuration file", "run --config $DIR/key.toml --key k -- true"},
      {78, "config.toml:1: config: cannot be set", "run --config $DIR/config.toml --key k -- true"},
      {78, "profile.toml:1: profile: cannot be set",
       "run --config $DIR/profile.toml --key k -- true"},
      {78, "quiet.toml:1: quiet", "run --config $DIR/quiet.toml --key k -- true"},
      {78, "must not be empty", "run --config $DIR/empty.toml --key k -- true"},
      {78, "none.toml", "run --config $DIR/none.toml --key k -- true"},
      {78, "profile.nope", "run --profile nope --key k -- true"},
      // numbers and signals
      {64, "'0' is not a whole number from 1 to 1000000", "run --key k --limit 0 -- true"},
      {64, "--signal: 'FOO' is not a signal", "run --key k --signal FOO -- true"},
      {64, "'0' is not a fencing token", "check --key k --token 0"},
      {64, "'-3' is not a fencing token", "release --key k --force --token -3"},
      {64, "--descendants: 'leave' is neither wait, kill nor release",
       "run --key k --descendants leave -- true"},
      // forms of a result
      {64, "--output: 'xml' is neither text, json nor env", "acquire --key k --output xml"},
      {64, "--output: 'csv' is neither text, json nor env", "acquire --key k --output csv"},
      {64, "--output: 'env' is neither text nor json", "renew --key k --output env"},
      {64, "--output: 'csv' is neither text nor json", "check --key k --output csv"},
      {64, "--output: 'env' is neither text nor json", "release --key k --output env"},
      {64, "--output: 'env' is neither text, json nor csv", "inspect k --output env"},
      {64, "--output: 'env' is neither text, json nor csv", "inspect --doctor --output env"},
      {64, "--output csv and --doctor contradict", "inspect --doctor --output csv"},
      {64, "--csv and --doctor contradict", "inspect --doctor --csv"},
      {64, "'--csv' is an option of inspect, not of renew", "renew --key k --csv"},
      {64, "'--json' is an option of", "fence --state f --token 1 --json -- true"},
      {64, "'97' is not an open descriptor", "run --key k --status 97 -- true"},
      {64, "descriptor 0 is not open for writing", "run --key k --status 0 -- true"},
      // missing and contradicting options
      {64, "run: --key is missing", "run -- true"},
      {64, "-- and the command are missing", "run --key k"},
      {64, "--limit and --shared", "run --key k --limit 3 -s -- true"},
      {64, "--handle and --nonblock contradict", "run --key k --handle x -n -- true"},
      {64, "--again goes with --once-per", "run --key k --again -- true"},
      {64, "--until-success goes with --once-per", "run --key k --until-success -- true"},
      {64, "--keep and --hold", "acquire --key k --keep --hold"},
      {64, "--watch-pid goes with --keep", "acquire --key k --watch-pid 3"},
      {64, "--max-hold goes with --keep", "acquire --key k --hold --max-hold 3"},
      {64, "--token goes with --force", "release --key k --token 3"},
      {64, "SEQUENCER or --key is missing", "check"},
      {64, "either a sequencer or --key", "check S --key k"},
      {64, "--state is missing", "fence --token 3 -- true"},
      {64, "--check needs a key", "inspect --check"},
      {64, "--held chooses from the list", "inspect k --held"},
      {64, "--json and --csv", "inspect -J --csv"},
      {64, "--duration and --ops", "bench -d 1s -N 5"},
      {64, "run: --nonblock and --wait contradict each other", "run --key k -w 3 -n -- true"},
      {78, "DLOCK_NONBLOCK and DLOCK_WAIT", "DLOCK_NONBLOCK=1 DLOCK_WAIT=3 run --key k -- true"},
      {64, "--force and --handle", "release --key k --force --handle h1:file.lease:H0"},
      {64, "--yes goes with --force", "release --key k --yes"},
      {64, "--token and --yes contradict each other", "release --key k --force --token 3 --yes"},
      {64, "--wait goes with --revoke", "release --key k --force --yes --wait 1s"},
      {64, "--wait goes with --revoke", "release --key k --handle x --wait 1s"},
      {64, "--token and --handle", "check --key k --token 3 --handle h1:file.lease:H0"},
      {64, "'k' is not a sequencer", "check k"},
      {64, "a key goes with --token, --handle or --key", "check k"},
      {64, "the key goes after --key", "run nightly -- true"},
      {64, "unexpected argument 'nightly': the key was given by --key",
       "renew nightly --key daily"},
      {64, "--json and --output", "inspect --json --output text"},
      {64, "--csv and --output", "inspect --csv --output json"},
      {64, "--output json and --columns", "inspect --output json -o KEY"},
      {64, "--json goes with --explain", "run --key k --json -- true"},
      {64, "unexpected argument", "--version --output csv"},
      {64, "unexpected argument", "--version --json more"},
      {64, "'--wait' is an option of run, acquire, release, fence, not of config",
       "config --wait 3"},
      // fence and bench
      {64, "--token", "fence --state f --token 0 -- true"},
      {64, "--token is missing", "fence --state f -- true"},
      {64, "put -- before the command", "fence --state f --token 1 true"},
      {64, "--scenario: 'x' is not a scenario", "bench --scenario handoff,x"},
      {64, "--clients", "bench -c 0"},
      {64, "--duration", "bench -d 0"},
      {64, "have a recipe", "bench --recipe nope"},
      {64, "--output", "bench --output xml"},
      {64, "--hold", "bench --hold 20s"},
      {64, "--backend", "bench -b nope:"},
      {64, "twice", "bench -b file: -b file:"},
      {78, "--backend: password_file '$DIR/none'",
       "bench -b redis://127.0.0.1:1?password_file=$DIR/none"},
      {78, "--password-file '$DIR/none'",
       "bench --password-file $DIR/none -b redis://127.0.0.1:1?password_file=$DIR/handle"},
      {78, "DLOCK_OUTPUT: 'xml' is neither text, json nor csv", "DLOCK_OUTPUT=xml inspect"},
      // handles, which messages never repeat
      {64, "--handle: ", "release --key k --handle secret"},
      {64, "--handle -: ", "release --key k --handle -"},
      {78, "--handle @FILE: '$DIR/handle'", "release --key k --handle @$DIR/handle"},
      {78, "cannot be read: No such file", "release --key k --handle @$DIR/none"},
      {78, "cannot be read: Is a directory", "release --key k --handle @$DIR"},
      {78, "cannot be read: File too large", "release --key k --handle @/dev/zero"},
      {64, "it is a handle of redis.fair, but --backend is file.lease",
       "release --key k --handle h1:redis.fair:H0"},
      {64, "; without one, --revoke asks the holder to stop, and --force removes it",
       "release --key k"},
      {64, "did you mean --key nightly?", "run -k nightly -- true"},
      {64, "did you mean --key?", "run --ky nightly -- true"},
      {64, "write a '/' in a password as %2F", "inspect -b redis://u:pa/ss@h/0"},
      {64, "there is no scheme 'mysql2'; write mysql:", "inspect -b mysql2://h/d"},
      {64, "write postgresql:", "inspect -b postgresql+psycopg2://h/d"},
      {64, "write redis+sentinel:", "inspect -b redis-sentinel://h/main"},
      {64, "'/run/redis' is not a host", "inspect -b redis://%2Frun%2Fredis"},
      {64, "'/run' is not a host", "inspect -b postgresql://h,%2Frun/d"},
      {64, "host is 'h,/run'; allowed is names of hosts, or the directory of one socket",
       "inspect -b postgresql:///d?host=h,/run"},
      {64, "hostaddr is 'db1'; allowed is an address for each host",
       "inspect -b postgresql://h/d?hostaddr=db1"},
      {64, "hostaddr is '127.0.0.1'; allowed is an address for each host",
       "inspect -b postgresql://h,g/d?hostaddr=127.0.0.1"},
      {64, "user is '***'; allowed is the same as before the '@', or none there",
       "inspect -b postgresql://u@h/d?user=v"},
      {64, "h/d?password=***': password is '***'; allowed is the same",
       "inspect -b postgresql://u:canary@h/d?password=other"},
      {64, "connect_timeout is '0'; allowed is seconds above 0",
       "inspect -b postgresql://h/d?connect_timeout=0"},
      {64, "ssl-mode is 'PREFERRED'; allowed is DISABLED, REQUIRED,",
       "inspect -b mysql://h/d?ssl-mode=PREFERRED"},
      {64, "allowed is nothing beside tls=", "inspect -b mysql://h/d?tls=no&ssl-mode=REQUIRED"},
      {64, "allowed is yes, or verify-ca beside --tls-ca",
       "inspect -b mysql://h/d?ssl-mode=VERIFY_CA"},
      {64, "--tls-name: no use for it", "inspect -b mysql://h/d?ssl-mode=DISABLED --tls-name a"},
      {64, "item 'schema' is for another program's own use of the database; leave it out",
       "inspect -b postgresql://h/d?schema=public"},
      {64, "database is missing; allowed is the name", "inspect -b mysql://h"},
      {64, "--handle is missing", "DLOCK_HANDLE=h1:redis.fair:H0 renew --key k"},
      {64, "--handle is missing", "DLOCK_FORCE=1 DLOCK_YES=1 DLOCK_TOKEN=3 release -q --key k"},
      // sequencers
      {64, "'v2:file.lease:k:X:3' is not a sequencer", "check v2:file.lease:k:X:3"},
      {64, "is not a sequencer", "check v1:file.lease:k:X"},
      {64, "is not a sequencer", "check v1:file.lease:k:Q:3"},
      {64, "is a sequencer of redis.fair, but DLOCK_BACKEND is file.lease: name the same one",
       "check v1:redis.fair:k:X:3"},
      {64, "is a sequencer of file.flock, but DLOCK_BACKEND is file.lease",
       "check v1:file.flock:k:X:3"},
      // what a backend has no use for
      {64, "--tls-ca: no use for it at redis://127.0.0.1:1: it is without TLS; use rediss://",
       "inspect -b redis://127.0.0.1:1 --tls-ca $DIR/handle"},
      {64, "--tls-cert: no use for it", "inspect -b redis://127.0.0.1:1 --tls-cert $DIR/handle"},
      {64, "--tls-key: no use for it", "inspect -b redis://127.0.0.1:1 --tls-key $DIR/handle"},
      {64, "--tls-name: no use for it", "inspect -b redis://127.0.0.1:1 --tls-name a.example"},
      {64, "--tls-name: 'a b' is neither the name of a host nor an address",
       "inspect -b rediss://127.0.0.1:1 --tls-name 'a b'"},
      {64, "allowed is yes, or verify-ca beside --tls-ca",
       "inspect -b rediss://127.0.0.1:1?tls=verify-ca"},
      {64, "allowed is yes, or verify-ca beside --tls-ca",
       "inspect -b mysql://127.0.0.1:1/d?tls=verify-ca"},
      {64, "--tls-name is 'a.example'; allowed is nothing: a unix socket",
       "inspect -b postgresql+unix:///run?db=d&tls_name=a.example"},
      {64, "--tls-insecure: no use for it", "inspect -b redis://127.0.0.1:1 --tls-insecure"},
      {64, "add tls=yes", "inspect -b redis+cluster://127.0.0.1:1 --tls-ca $DIR/handle"},
      {64, "unix socket", "inspect -b redis+unix:///run/none --tls-ca $DIR/handle"},
      {64, "tls_ca", "inspect -b redis://127.0.0.1:1?tls_ca=$DIR/handle"},
      {78, "DLOCK_TLS_CA: no use for it", "DLOCK_TLS_CA=ca inspect -b redis://127.0.0.1:1"},
      {64, "add tls=yes", "inspect -b mysql://127.0.0.1:1/db --tls-ca $DIR/handle"},
      {64, "no TLS for ZooKeeper", "inspect -b zookeeper://127.0.0.1:1 --tls-ca $DIR/handle"},
      {64, "--tls-ca: no use for it", "bench -b redis://127.0.0.1:1 -b file: --tls-ca $DIR/handle"},
      {64, "--auth-file: no use for it", "inspect -b redis://127.0.0.1:1 --auth-file $DIR/handle"},
      {64, "no use for auth_file", "inspect -b redis://127.0.0.1:1?auth_file=$DIR/handle"},
      {64, "no use for password_file: it has no secrets",
       "inspect -b file:$DIR/l?password_file=$DIR/handle"},
      {78, "DLOCK_AUTH_FILE: no use for it", "DLOCK_AUTH_FILE=f inspect -b redis://127.0.0.1:1"},
      {64, "--password-file: no use for it",
       "inspect -b zookeeper://127.0.0.1:1 --password-file $DIR/handle"},
      {78, "DLOCK_PASSWORD: no use for it", "DLOCK_PASSWORD=x inspect -b zookeeper://127.0.0.1:1"},
      {78, "--tls-ca $DIR/none: No such file or directory",
       "inspect -b rediss://127.0.0.1:1 --tls-ca $DIR/none"},
      {78, "--tls-ca $DIR/handle: no certificate",
       "DLOCK_TLS_CA=$DIR/none inspect -b rediss://127.0.0.1:1?tls_ca=$DIR/handle"},
      {78, "--tls-ca $DIR/handle: no certificate",
       "inspect -b rediss://127.0.0.1:1 --tls-ca $DIR/handle"},
      // backend URLs, schemes, recipes and items
      {64, "there is no scheme 'nope'", "run -b nope:/x --key k -- true"},
      {64, "it has no scheme; allowed is SCHEME:PATH or SCHEME://HOST, as in",
       "run -b nothing --key k -- true"},
      {64, "'localhost:6379' has no scheme; did you mean redis://localhost:6379?",
       "run -b localhost:6379 --key k -- true"},
      {64, "did you mean redis://127.0.0.1:6379?", "run -b 127.0.0.1:6379 --key k -- true"},
      {64, "did you mean zookeeper://zk-1.example:2181?", "inspect -b zk-1.example:2181"},
      {64, "it has no scheme; allowed is", "run -b 127.0.0.1:1 --key k -- true"},
      {64, "there is no scheme 'localhost'", "run -b localhost:1 --key k -- true"},
      {64, "it has no scheme; a directory is file:/DIR", "run -b /var/tmp/locks --key k -- true"},
      {64, "--backend: ", "run -b 'file:///x#y' --key k -- true"},
      {64, "short_ttl: 'perhaps' is neither yes nor no",
       "run -b file:///x?short_ttl=perhaps --key k -- true"},
      {64, "has no recipe 'fast'; allowed are lease, flock",
       "run -b file:///x?recipe=fast --key k -- true"},
      {64, "--recipe: ", "run --recipe fast --key k -- true"},
      {64, "has no recipe 'fast'", "inspect --recipe fast"},
      {64, "u:***@", "run -b nope://u:geheim@h/ --key k -- true"},
      {64, "file takes a directory and no host", "run -b file://host/new --key k -- true"},
      // options that a recipe lacks
      {64, "--hold", "acquire --key k --recipe flock"},
      {64, "--limit: recipe flock of file has no permits",
       "run --limit 3 --recipe flock --key k -- true"},
      {64, "--lock-delay: recipe flock of file has no lock-delay",
       "run --lock-delay 3 --recipe flock --key k -- true"},
      {78, "DLOCK_LIMIT: recipe flock", "DLOCK_LIMIT=3 run --recipe flock --key k -- true"},
      // a wrong value of a URL item, before anything is waited for
      {64, "netfs is 'x'; allowed is yes or no",
       "run -b file:$DIR?netfs=x --splay 10m --key k -- true"},
      {64, "restart_grace is 'x'; allowed is",
       "run -b redis://h?restart_grace=x --splay 10m --key k -- true"},
      {64, "host is '2 hosts'; allowed is an odd number",
       "run -b redlock://a,b --splay 10m --key k -- true"},
      {64, "tick is 'x'; allowed is", "run -b zk://h?tick=x --splay 10m --key k -- true"},
      {64, "wake is 'x'; allowed is", "run -b mysql://h/d?wake=x --splay 10m --key k -- true"},
      // a bad variable is 78 and named
      {78, "DLOCK_NONBLOCK: 'maybe' is neither 1, true, yes or on, nor 0",
       "DLOCK_NONBLOCK=maybe run --key k -- true"},
      {78, "DLOCK_WAIT: 'soon'", "DLOCK_WAIT=soon run --key k -- true"},
      {78, "DLOCK_WAIT: is set but empty", "DLOCK_WAIT= run --key k -- true"},
      {78, "DLOCK_QUIET: 'maybe'", "DLOCK_QUIET=maybe run --key k -- true"},
      {78, "DLOCK_CONFLICT_EXIT_CODE: '300'", "DLOCK_CONFLICT_EXIT_CODE=300 run --key k -- true"},
      {78, "DLOCK_BACKEND: is set but empty", "DLOCK_BACKEND= run --key k -- true"},
      {78, "DLOCK_BACKEND: ", "DLOCK_BACKEND=nope: run --key k -- true"},
      {78, "DLOCK_RECIPE: ", "DLOCK_RECIPE=fast run --key k -- true"},
      {78, "DLOCK_TTL: 1s must be at least 2s", "DLOCK_TTL=1s acquire --key k"},
      {78, "DLOCK_LIMIT and DLOCK_SHARED contradict",
       "DLOCK_SHARED=1 DLOCK_LIMIT=3 run --key k -- true"},
      {78, "DLOCK_STATUS: '97' is not an open descriptor", "DLOCK_STATUS=97 run --key k -- true"},
      {78, "DLOCK_COLUMNS: 'x' is not a column", "DLOCK_COLUMNS=x inspect"},
      {64, "?short_ttl=yes",
       "DLOCK_HOLD=maybe DLOCK_JSON=maybe DLOCK_CHECK=maybe acquire -q --key k --ttl 1"},
      // a misspelt one is 78 and the message names the probable one
      {78, "DLOCK_BACKNED: there is no such variable; did you mean DLOCK_BACKEND?",
       "DLOCK_BACKNED=redis://h run --key k -- true"},
      {78, "did you mean DLOCK_WAIT?", "DLOCK_WIAT=3 acquire --key k"},
      {78, "did you mean DLOCK_CONNECT_TIMEOUT?", "DLOCK_CONECT_TIMOUT=3 inspect"},
      {78, "DLOCK_URL: there is no such variable; did you mean DLOCK_BACKEND?",
       "DLOCK_URL=redis://h run --key k -- true"},
      {78, "DLOCK_HOST: there is no such variable; did you mean DLOCK_BACKEND?",
       "DLOCK_HOST=redis://h acquire k"},
      {78, "DLOCK_URL: there is no such variable; did you mean DLOCK_BACKEND?",
       "DLOCK_URL=redis://h inspect k"},
      {78, "DLOCK_HOST: there is no such variable; did you mean DLOCK_BACKEND?",
       "DLOCK_HOST=redis://h release k"},
      // columns
      {64, "'x' is not a column: KEY, STATE", "inspect -o KEY,x"},
      {64, "'' is not a column", "inspect -o KEY,,STATE"},
      {64, "'' is not a column", "inspect -o +"},
      {64, "--sort: 'size' is neither key, age nor waiters", "inspect --sort size"},
  };
  const test::TempDir dir;
  for (const auto& [name, text] : {std::pair{"old.toml", "no-foreground = true\n"},
                                   {"wat.toml", "wat = 1\n"},
                                   {"soon.toml", "\nwait = 'soon'\n"},
                                   {"key.toml", "key = 'k'\n"},
                                   {"config.toml", "config = 'other.toml'\n"},
                                   {"profile.toml", "profile = 'p'\n"},
                                   {"quiet.toml", "quiet = 'perhaps'\n"},
                                   {"empty.toml", "reason = ''\n"},
                                   {"handle", "secret\n"}})
    std::ofstream(dir / name) << text;
  for (const auto& [status, words, line] : rows) {
    if (!built_with(line)) continue;
    INFO(line);
    const Answer a = answer_to(dir.path(), replaced(line, "H0", zeros));
    CHECK(a.status == status);
    CHECK(a.out.empty());
    INFO(a.err);
    CHECK(a.err.starts_with("dlock: "));
    CHECK(a.err.find('\n') == a.err.size() - 1);
    CHECK(a.err.find(replaced(words, "$DIR", dir.path())) != a.err.npos);
    for (const char* never : {"geheim", "secret", "00000000"})
      if (std::string_view{words}.find(never) == std::string_view::npos)
        CHECK(a.err.find(never) == a.err.npos);
  }
  CHECK_FALSE(std::filesystem::exists(dir / "locks"));
}

TEST_CASE("--output env without a lock: a line that fails when a shell evaluates it") {
  static const Row rows[] = {
      {64, "(exit 64)\n", "acquire --output env"},
      {64, "(exit 64)\n", "acquire --output=env --key k --bogus"},
      {64, "(exit 64)\n", "acquire --bogus --key k --output env"},
      {64, "(exit 64)\n", "acquire --key k --ttl soon --output env"},
      {64, "(exit 64)\n", "acquire --output env --output nope --key k"},
      {64, "(exit 64)\n", "acquire -J --output env --key k"},
      {64, "(exit 64)\n", "acquire --key k --output env -b nope:"},
      {64, "(exit 64)\n", "acquire --key k --output env word"},
      {64, "(exit 64)\n", "acquire --key k --output env -E 0"},
      {64, "(exit 64)\n", "acquier --key k --output env"},
      {64, "(exit 64)\n", "--output env acquire --key k"},
      {64, "", "acquire --key k --bogus -- --output env"},
      {64, "", "acquire --key k --output"},
      {64, "", "acquire --key k --output=json env"},
      {64, "", "acquire --key k --bogus --reason --output"},
      {64, "(exit 64)\n", "DLOCK_OUTPUT=env acquire --key k --bogus"},
      {78, "(exit 78)\n", "DLOCK_OUTPUT=env DLOCK_WAIT=soon acquire --key k"},
      {78, "(exit 78)\n", "DLOCK_OUTPUT=env DLOCK_BACKNED=x acquire --key k"},
      {78, "(exit 78)\n", "DLOCK_OUTPUT=env DLOCK_CONFLICT_EXIT_CODE=0 acquire -n --key k"},
      {64, "(exit 64)\n", "acquire --key k --config $DIR/env.toml --bogus"},
      {78, "(exit 78)\n", "DLOCK_WAIT=soon acquire --key k --config $DIR/env.toml"},
      {78, "(exit 78)\n", "acquire --key k --config $DIR/wrong.toml"},
      {78, "(exit 78)\n", "acquire --key k --config $DIR/none.toml --output env"},
  };
  const test::TempDir dir;
  std::ofstream(dir / "env.toml") << "output = 'env'\n";
  std::ofstream(dir / "wrong.toml") << "wait = 'soon'\noutput = 'env'\n";
  for (const auto& [status, line_of_shell, line] : rows) {
    INFO(line);
    const Answer a = answer_to(dir.path(), line);
    CHECK(a.status == status);
    CHECK(a.out == line_of_shell);
  }
  CHECK_FALSE(std::filesystem::exists(dir / "locks"));
}

TEST_CASE("accepted, and what it means") {
  static const Row rows[] = {
      {0, "at most 3s", "DLOCK_WAIT=soon run --explain --key e -w 3"},  // a good option hides it
      {0, "one try", "DLOCK_WAIT=soon run --explain --key e -n"},       // the same choice
      {0, "at most one per day", "DLOCK_ONCE_PER=day run --explain --key e --again"},
      {0, "permit of 3", "DLOCK_SHARED=1 run --explain --key e --limit 3"},
      {0, "", "DLOCK_TTL=soon run --explain --key e --ttl 9"},
      {0, "/other", "DLOCK_BACKEND=nope: run --explain --key e -b file:$DIR/other"},
      // flag, URL, environment
      {0, "", "DLOCK_RECIPE=fast run --explain --key e -b file:$DIR/other?recipe=lease"},
      {0, "usage: dlock run", "DLOCK_BACKNED=x DLOCK_BACKEND=nope: DLOCK_WAIT=soon run --help"},
      {0, "", "DLOCK_NO_FOREGROUND=1 inspect"},  // has never had it
      // of files, which have no secrets and no network
      {0, "", "DLOCK_TLS_CA=ca DLOCK_PASSWORD=x run --explain --tls-ca ca --key e"},
      // variables stand for options
      {0, "at most 7s", "DLOCK_WAIT=7 run --explain --key e"},
      {0, "one try", "DLOCK_NONBLOCK=yes run --explain --key e"},
      {0, "for ever", "DLOCK_NONBLOCK=off run --explain --key e"},
      // options may stand anywhere before --, in every form
      {0, "busy (status 9)", "run --explain -nE9 --key=e"},
      {0, "at most 3m", "run --key e -w3m --explain -- a command --that -n is not read"},
      {0, "-n (exclusive)", "run --explain --key -n"},  // a value may look like an option
      {0, "at most 5s", "run --explain --key e -w 3 -w 5"},
      {0, "", "inspect k --no-heading"},
      {0, "", "run --explain -b zookeeper://h?tick=2s --key k --ttl 6s --lock-delay 30s -- true"},
  };
  const test::TempDir dir;
  for (const auto& [status, words, line] : rows) {
    if (!built_with(line)) continue;
    INFO(line);
    const Answer a = answer_to(dir.path(), line);
    INFO(a.out << a.err);
    CHECK(a.status == status);
    CHECK((a.out + a.err).find(words) != a.out.npos);
  }
}

TEST_CASE("variables that no option has are named in one line, unless -q") {
  const test::TempDir dir;
  // of others, of dlock itself, and of a Kubernetes service dlock
  const std::string others =
      "DLOCK_SERVICE_HOST=10.0.0.1 DLOCK_SERVICE_PORT=6379 DLOCK_SERVICE_PORT_WAIT=1 "
      "DLOCK_PORT=tcp://10.0.0.1:6379 DLOCK_PORT_6379_TCP_ADDR=10.0.0.1 DLOCK_KEYS_HOST=h "
      "DLOCK_WAITS=tcp://10.0.0.1:1 DLOCK_TEST_WAIT=1 DLOCK_SLOT=1 DLOCK_TTL_MS=3 DLOCK_HOLD=1s "
      "DLOCK_MAX_HOLD=1h ";
  const std::string ignored = "dlock: ignored: ", none = " (no option has this name)";
  CHECK(answer_to(dir.path(), others + "run --explain --key e").err ==
        ignored + "DLOCK_KEYS_HOST" + none + "\n");
  const std::string two = answer_to(dir.path(), "DLOCK_FLEET=x " + others + "inspect").err,
                    one = "DLOCK_FLEET" + none, other = "DLOCK_KEYS_HOST" + none;
  CHECK((two == ignored + one + ", " + other + "\n" || two == ignored + other + ", " + one + "\n"));
  CHECK(answer_to(dir.path(), "DLOCK_TLS_INSECURE=1 run --explain --key e").err ==
        ignored + "DLOCK_TLS_INSECURE (cannot be set by a variable)\n");
  CHECK(answer_to(dir.path(), others + "run --explain -q --key e").err.empty());
}
