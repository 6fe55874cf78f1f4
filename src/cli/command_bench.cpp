// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include "bench/bench.hpp"
#include "bench/report.hpp"
#include "cli/command.hpp"
#include "cli/options/verbs.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "core/duration.hpp"
#include "core/exit_status.hpp"
#include "core/text.hpp"
#include "util/file.hpp"
#include "util/terminal.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

bool loopback(const Url& url) {
  return std::ranges::any_of(url.hosts, [](const Url::Host& h) {
    return h.name == "localhost" || h.name == "::1" || h.name.starts_with("127.");
  });
}

bench::Target target_of(Store store, const BenchOptions& o, std::string backend,
                        std::size_t number) {
  std::erase_if(store.url.items, [](const auto& item) { return item.first == "prefix"; });
  store.url.items.emplace_back("prefix", o.prefix);
  bench::Target t;
  t.backend = std::move(backend);
  t.recipe = store.traits->recipe;
  t.tag = fmt::format("{}-", number);
  t.traits = store.traits;
  t.loopback = loopback(store.url);
  t.proven_of = [traits = store.traits, url = store.url](Duration ttl) {
    return traits->proven_of(ttl, Duration{}, url);
  };
  t.open = [store = std::move(store)](Duration op_timeout,
                                      int interrupt_fd) -> Result<std::unique_ptr<Backend>> {
    TRY(open, store.prepare());
    return open(op_timeout, interrupt_fd);
  };
  return t;
}

// Makes one target for each backend and recipe. `all` stands for every recipe of the backend.
Result<std::vector<bench::Target>> targets_of(const BenchOptions& o) {
  std::vector<bench::Target> targets;
  std::vector<std::pair<std::string_view, unsigned>> families;  // each with its number of backends
  std::vector<std::string_view> used;                           // recipes of at least one backend
  std::vector<Store> stores;
  const auto& urls = o.backends;
  const std::vector<std::string_view> usual{o.backend};
  for (const std::string_view text : urls.empty() ? usual : urls) {
    StoreOptions one = o;
    one.backend = text;
    one.recipe = {};
    TRY(store, choose_store(one));
    TRY_VOID(check_ttl(o, store));
    stores.push_back(store);
    const std::string_view family = store.factory->family;
    auto at = std::ranges::find_if(families, [&](const auto& s) { return s.first == family; });
    if (at == families.end()) at = families.insert(families.end(), {family, 0});
    const std::string name =
        ++at->second > 1 ? fmt::format("{}#{}", family, at->second) : std::string(family);

    std::vector<const Traits*> recipes;
    if (o.recipes.empty()) recipes.push_back(store.traits);
    for (const Traits& t : store.factory->recipes)
      for (const std::string_view wanted : o.recipes)
        if (wanted == "all" || wanted == t.recipe) {
          if (std::ranges::find(recipes, &t) == recipes.end()) recipes.push_back(&t);
          used.push_back(wanted);
        }
    for (const Traits* t : recipes) {
      Store with = store;
      with.traits = t;
      targets.push_back(target_of(std::move(with), o, name, targets.size()));
    }
  }
  TRY_VOID(all_useful(o, stores));
  for (const std::string_view wanted : o.recipes)
    if (std::ranges::find(used, wanted) == used.end())
      return fail(error_code_of(o, "recipe"), "{}: the backends do not have a recipe {}",
                  display_name(o, "recipe"), quoted(wanted));
  return targets;
}

// Raises the limit on open files, because each client needs descriptors of its own.
void allow_many_files() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files)) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

std::vector<std::string> notes_on(const bench::Plan& plan) {
  std::vector<std::string> notes;
  std::vector<std::pair<std::string, std::string>> reasons;  // each reason with its targets
  const auto because = [&](const std::string& name, std::string_view why) {
    const auto at =
        std::ranges::find_if(reasons, [&](const auto& known) { return known.first == why; });
    if (at == reasons.end()) reasons.emplace_back(why, name);
    else at->second += ", " + name;
  };
  for (const bench::Target& t : plan.targets) {
    const std::string name = fmt::format("{} {}", t.backend, t.recipe);
    if (t.loopback)
      because(name,
              "the server is on this host; over a network each command takes a round trip more");
    if (t.traits->legacy) because(name, t.traits->weakness);
  }
  for (const auto& [why, names] : reasons) notes.push_back(fmt::format("{}: {}", names, why));
  return notes;
}

// Returns "redis: 7.0.15" from the doctor's findings. A version that several servers have is shown
// once.
std::string server_of(const std::string& backend, const std::vector<Finding>& found) {
  std::string versions;
  for (const Finding& f : found)
    if (f.what == "server" || f.what == "version" || f.what.starts_with("version of "))
      if (versions.find(f.seen) == versions.npos) add_part(versions, f.seen);
  return versions.empty() ? "" : fmt::format("{}: {}", backend, versions);
}

// Adds the versions that the servers report.
void add_servers(const bench::Plan& plan, bench::Report& report) {
  std::string last;
  for (const bench::Target& t : plan.targets) {
    if (t.backend == last) continue;  // the same server
    last = t.backend;
    const auto backend = t.open(plan.op_timeout, -1);
    if (!backend) continue;
    const auto found = (*backend)->doctor();
    if (!found) continue;
    if (std::string server = server_of(t.backend, *found); !server.empty())
      report.servers.push_back(std::move(server));
    for (const Finding& f : *found)
      if (f.level == Finding::Level::bad || f.level == Finding::Level::warning)
        report.notes.push_back(fmt::format("{}: {}: {}; {}", t.backend, f.what, f.seen, f.advice));
  }
}

// The page of --html. It is opened before anything is measured, so that a wrong name does not cost
// hours. The old page stays until the new page is complete. If no new page is made, no new file is
// left.
class Page {
 public:
  explicit Page(std::string path) : path_(std::move(path)) {
    if (path_.empty()) return;
    struct stat st {};
    existed_ = ::lstat(path_.c_str(), &st) == 0;
    file_ = open_to_write(path_, 0, 0666);
    if (!file_) return;  // errno says why
    const std::size_t slash = path_.rfind('/');
    const std::string parent = slash == path_.npos ? "." : path_.substr(0, slash + 1);
    directory_.reset(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  // Removes only our file, and only from the directory in which it was made, because somebody may
  // have moved the file or the directory.
  ~Page() {
    if (!file_ || written_ || existed_ || !directory_) return;
    const std::string name = path_.substr(path_.rfind('/') + 1);
    struct stat mine {
    }, there{};
    if (::fstat(file_.get(), &mine) == 0 &&
        ::fstatat(directory_.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
      ::unlinkat(directory_.get(), name.c_str(), 0);
  }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  // Call it directly after the constructor, because it reads errno.
  Result<void> opened(const BenchOptions& o) const {
    if (path_.empty()) return {};
    const char* const why = errno == ENXIO ? "this FIFO has no reader" : std::strerror(errno);
    if (!file_)
      return fail(Errc::cannot_create, "{}: {}: {}", display_name(o, "html"), quoted(path_), why);
    ::fcntl(file_.get(), F_SETFL, 0);  // only the open must not block
    return {};
  }
  Result<void> write(std::string_view page) {
    if (!file_) return {};
    written_ = true;
    struct stat st {};
    const bool emptied =
        ::fstat(file_.get(), &st) != 0 || !S_ISREG(st.st_mode) || ::ftruncate(file_.get(), 0) == 0;
    const int error = emptied ? write_all(file_.get(), page) : errno;
    if (!error) return {};
    return fail(Errc::cannot_create, "--html: {}: {}", quoted(path_), ::strerrordesc_np(error));
  }

 private:
  std::string path_;
  Fd file_, directory_;
  bool existed_ = false, written_ = false;
};

Result<bench::Plan> plan_of(const BenchOptions& o) {
  bench::Plan p;
  static_cast<bench::Measurement&>(p) = o;
  if (p.scenarios.empty()) p.scenarios = {bench::Scenario::uncontended, bench::Scenario::handoff};
  p.ttl = o.ttl;
  if (given(o, "ttl")) p.crash_ttl = o.ttl;
  if (p.hold_for > p.ttl / 3)
    return fail(error_code_of(o, "hold"),
                "{}: {} is more than a third of --ttl {}, and nothing is renewed meanwhile",
                display_name(o, "hold"), format_duration(p.hold_for), format_duration(p.ttl));
  p.op_timeout = o.op_timeout.value_or(usual_op_timeout(o.ttl));
  p.connect_timeout = o.connect_timeout;
  p.quiet = o.quiet;
  p.bar = !o.no_progress && can_redraw(STDERR_FILENO);
  TRY(targets, targets_of(o));
  p.targets = std::move(targets);
  return p;
}

}  // namespace

Result<run::Outcome> command_bench(const BenchOptions& given_options) {
  BenchOptions o = given_options;
  TRY_VOID(stdout_usable());
  const std::string random = fmt::format("dlock-bench-{}-", Owner::random().hex().substr(0, 8));
  if (o.prefix.empty()) o.prefix = random;
  TRY(plan, plan_of(o));
  Page page{std::string(o.html)};
  TRY_VOID(page.opened(o));
  allow_many_files();

  TRY(report, bench::run(plan));
  report.notes = notes_on(plan);
  add_servers(plan, report);
  report.notes.insert(report.notes.end(), report.left.begin(), report.left.end());

  TRY_VOID(print(o.output == Output::json  ? bench::json_of(plan, report, version())
                 : o.output == Output::csv ? bench::csv_of(report)
                                           : bench::text_of(plan, report, version())));
  TRY_VOID(page.write(bench::html_of(plan, report, version())));
  if (o.output != Output::text) {
    for (const std::string& line : bench::verdict(report))
      if (line.starts_with("FAIL") || line.starts_with("ERROR")) say(line);
    for (const std::string& left : report.left) say(left);
  }

  run::Outcome outcome = ended(report.violated()                            ? status_stale
                               : report.without_samples() && !report.signal ? status_unavailable
                                                                            : status_ok);
  if (report.signal && outcome.value == status_ok) {
    outcome.by_signal = true;
    outcome.value = report.signal;
  }
  return outcome;
}

}  // namespace dlock::cli
