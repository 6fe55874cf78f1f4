// SPDX-License-Identifier: Apache-2.0
// store NAME FILE [OPTION...]: a store of the catalogue (stores.hpp) for tests in any language.
// When its server answers requests, its URL is in FILE. It lives until FILE is removed, it is told
// to end (TERM), or the process that started it is gone. Exit status 77: the server is not
// installed.
//   --as-installed   configured as distributions do; else in memory, and fast
//   --durable --proxied --movable-clock --servers N --items TEXT --config LINES
//                    as struct StoreSetup says
//   --background     ends when the server answers, and leaves that behind
// On stdin a command a line; on stdout its answer when it is done, `ok`, `ok VALUE` or
// `failed: WHY`:
//   url | fresh NAME | pid | freeze | thaw | kill | start | restart | wipe | fail-over
//   cut | heal       with --proxied
//   clock SECONDS    steps its wall clock, with --movable-clock; "-60" back
//   tell [WORD,...]  a JSON array for its own client; the value is what that printed, in JSON
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include "support/options.hpp"
#include "support/server.hpp"
#include "support/stores.hpp"

namespace fs = std::filesystem;
using namespace dlock;
using namespace dlock::test;

namespace {

StoreSetup setup_of(const std::string& name, const Options& o) {
  StoreSetup setup{.as_installed = o.has("--as-installed"),
                   .items = o.text("--items", ""),
                   .durable = o.has("--durable"),
                   .proxied = o.has("--proxied"),
                   .movable_clock = o.has("--movable-clock")};
  setup.servers = static_cast<std::size_t>(o.number("--servers", name == "redlock" ? 3 : 1));
  setup.harmed = std::min(setup.servers, setup.harmed);
  std::istringstream lines(o.text("--config", ""));
  for (std::string line; std::getline(lines, line);) setup.config.push_back(line);
  return setup;
}

std::string carry_out(Store& store, const std::string& command, const std::string& argument) {
  static const std::map<std::string, void (Store::*)()> without_argument{
      {"freeze", &Store::freeze}, {"thaw", &Store::thaw},           {"kill", &Store::kill},
      {"start", &Store::start},   {"restart", &Store::restart},     {"wipe", &Store::wipe},
      {"cut", &Store::cut},       {"fail-over", &Store::fail_over}, {"heal", &Store::heal}};
  if (const auto found = without_argument.find(command); found != without_argument.end()) {
    (store.*found->second)();
    return "";
  }
  if (command == "url") return store.url();
  if (command == "fresh") return store.fresh(argument);
  if (command == "pid") return std::to_string(store.pid());
  if (command == "tell") {
    const auto words = nlohmann::json::parse(argument).get<std::vector<std::string>>();
    return nlohmann::json(store.tell(words))
        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  if (command != "clock") throw std::runtime_error("there is no " + command);
  store.step_clock(std::chrono::seconds{std::stol(argument)});
  return "";
}

std::string answer(Store& store, const std::string& line) {
  const std::size_t space = std::min(line.find(' '), line.size());
  const std::size_t rest = std::min(space + 1, line.size());
  try {
    const std::string value = carry_out(store, line.substr(0, space), line.substr(rest));
    return value.empty() ? "ok" : "ok " + value;
  } catch (const std::exception& e) { return fmt::format("failed: {}", e.what()); }
}

// Until it is told to end, or the parent is gone, or FILE is.
void serve(Store& store, const Fd& signals, const Fd& parent, const std::string& file) {
  pollfd p[]{{signals.get(), POLLIN, 0}, {parent.get(), POLLIN, 0}, {0, POLLIN, 0}};
  std::string text;
  while (fs::exists(file)) {
    if (::poll(p, 3, 100) <= 0) continue;
    if (p[0].revents != 0 || p[1].revents != 0) break;
    char block[4096];
    const ssize_t n = ::read(0, block, sizeof block);
    if (n <= 0) p[2].fd = -1;  // no more commands
    text.append(block, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    for (std::size_t end = 0; (end = text.find('\n')) != text.npos; text.erase(0, end + 1)) {
      fmt::print("{}\n", answer(store, text.substr(0, end)));
      std::fflush(stdout);
    }
  }
}

// The status of `--background`: 0 when the server of `child` answers.
int wait_for(const std::string& file, pid_t child) {
  while (!fs::exists(file)) {
    if (::waitpid(child, nullptr, WNOHANG) != 0) give_up(file + ": its server did not start");
    ::usleep(10'000);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) wrong_options("usage: store NAME FILE [OPTION...]");
  const std::string name = argv[1], file = argv[2];
  const Options o(argc - 2, argv + 2,
                  {"--as-installed", "--durable", "--proxied", "--movable-clock", "--background"},
                  {"--servers", "--items", "--config"});
  fs::remove(file);
  if (const std::string program = missing(name); !program.empty()) return without(program);
  const Fd parent{static_cast<int>(::syscall(SYS_pidfd_open, ::getppid(), 0))};
  if (o.has("--background")) {
    if (const pid_t child = ::fork(); child != 0) return wait_for(file, child);
    ::setsid();
    const Fd null{::open("/dev/null", O_RDWR | O_CLOEXEC)};
    for (int fd = 0; fd < 3; ++fd) ::dup2(null.get(), fd);
  }
  sigset_t ends;
  sigemptyset(&ends);
  for (const int s : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) sigaddset(&ends, s);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  const Fd signals{::signalfd(-1, &ends, SFD_CLOEXEC)};
  try {
    const auto store = make_store(name, setup_of(name, o));
    write_file(file + ".new", store->url() + "\n");
    fs::rename(file + ".new", file);
    serve(*store, signals, parent, file);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), e.what());
    return 1;
  }
}
