// SPDX-License-Identifier: Apache-2.0
#include "support/stores.hpp"
#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <filesystem>
#include <stdexcept>
#include "support/catalogue.hpp"
#include "support/temp_dir.hpp"
#include "util/fd.hpp"

namespace dlock::test {
namespace {

std::vector<Named>& catalogue() {
  static std::vector<Named> all;
  return all;
}

const Named* named(std::string_view name) {
  for (const Named& n : catalogue())
    if (n.name == name) return &n;
  return nullptr;
}

[[noreturn]] void cannot(const char* what) {
  throw std::runtime_error(std::string{"this store "} + what);
}

class File final : public Store {
 public:
  explicit File(const StoreSetup&) {}
  std::string url() const override { return "file:" + dir_.path(); }
  std::string fresh(const std::string& name) override { return url() + "/" + name; }
  // Another process is in the middle of a change and does not come to its end. What is locked for
  // changes is in directories; beside them are the files that recipe flock holds locked.
  void freeze() override {
    const std::filesystem::recursive_directory_iterator end;
    for (std::filesystem::recursive_directory_iterator i(dir_.path()); i != end; ++i)
      if (i->is_regular_file() && i.depth() > 0) {
        held_.emplace_back(::open(i->path().c_str(), O_RDWR | O_CLOEXEC));
        while (::flock(held_.back().get(), LOCK_EX) != 0) {}
      }
  }
  void thaw() override { held_.clear(); }
  void restart() override {}  // there is no server
  std::vector<Kind> kinds() const override {
    std::vector<Kind> all = queue_kinds("lease");
    all.push_back({"flock", {}, {}, false});
    all.push_back({"flock", {}, {"-s"}, false});
    return all;
  }

 private:
  TempDir dir_;
  std::vector<Fd> held_;
};

const bool file_added = add_store<File>("file", []() -> const char* { return nullptr; });

}  // namespace

std::string Kind::name() const {
  if (holds.empty() && waits.empty()) return recipe;
  const auto mode = [](const std::vector<std::string>& options) {
    return options.empty() ? "exclusive" : fmt::format("{}", fmt::join(options, " "));
  };
  return fmt::format("{} {}, {}", recipe, mode(holds), mode(waits));
}

std::vector<Kind> queue_kinds(const std::string& recipe) {
  return {{recipe, {}, {}},
          {recipe, {"-s"}, {}},
          {recipe, {}, {"-s"}, false},
          {recipe, {"--limit", "1"}, {"--limit", "1"}}};
}

std::string Store::fresh(const std::string&) { cannot("has no parts"); }
void Store::freeze() { cannot("is not frozen"); }
void Store::thaw() { cannot("is not frozen"); }
void Store::kill() { cannot("is not killed alone"); }
void Store::start() { cannot("is not started alone"); }
void Store::restart() {
  kill();
  start();
}
void Store::wipe() { cannot("is not wiped"); }
void Store::fail_over() { cannot("has no replica"); }
void Store::step_clock(std::chrono::seconds) { cannot("has no clock to step"); }
void Store::move(const std::string&, const std::function<void()>&) { cannot("has no slots"); }
pid_t Store::pid() const { cannot("has no server of its own"); }
std::string Store::tell(const std::vector<std::string>&) { cannot("is not told anything"); }
std::vector<Kind> Store::kinds() const { cannot("is for scripts"); }
void Store::cut() {
  if (proxies().empty()) cannot("has no proxies");
  for (Proxy* p : proxies()) {
    p->refuse(true);
    p->cut();
  }
}
void Store::heal() {
  for (Proxy* p : proxies()) p->refuse(false);
}

bool add_store(const Named& n) {
  catalogue().push_back(n);
  return true;
}

std::string missing(const std::string& name) {
  const Named* const n = named(name);
  if (!n) return "dlock's backend for " + name;
  const char* const program = n->missing();
  return program ? program : "";
}

std::unique_ptr<Store> make_store(const std::string& name, const StoreSetup& setup) {
  const Named* const n = named(name);
  if (!n) throw std::runtime_error(name + ": no such store");
  return n->make(setup);
}

}  // namespace dlock::test
