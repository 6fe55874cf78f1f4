// SPDX-License-Identifier: Apache-2.0
// A lock directory of a group (mode 2770): its members exclude each other, other users are refused.
#include <filesystem>
#include "stores/file/traced.hpp"
#include "stores/file/users.hpp"

using namespace dlock;
using namespace dlock::contract;

TEST_CASE("members of the group exclude each other, whichever came first") {
  try {
    SharedDirectory shared(GENERATE(02770u, 0770u));
    Event held, go;
    As first(12001, {team}, [&] {
      const auto backend = open_in(shared.dir);
      const Granted g = take(*backend, request("k"));
      held.set();
      if (!go.comes()) return 1;
      return backend->release(g.lease).value() == Released::yes ? 0 : 2;
    });
    REQUIRE(held.comes());
    CHECK_FALSE(shared.gets_it(12002));
    Event queued;
    As second(12002, {team}, [&] {
      const auto backend = open_in(shared.dir);
      auto waiter = in_queue(*backend, request("k"));
      queued.set();
      return backend->release(take(*waiter).lease).value() == Released::yes ? 0 : 2;
    });
    REQUIRE(queued.comes());
    go.set();
    CHECK(first.wait() == 0);
    CHECK(second.wait() == 0);
    // Root takes part, too; and the two members' files are still shared with the group.
    CHECK(free_now(*open_in(shared.dir), request("k")));
    CHECK(shared.gets_it(12001));
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("a member that is killed before its FIFO is the group's bars no other member") {
  try {
    SharedDirectory shared;
    CHECK(shared.gets_it(12001));
    As(12001, {team}, [&] { return ::mkfifo((shared.dir + "/k/2").c_str(), 0660); }).wait();
    CHECK(shared.gets_it(12002));
    CHECK(files_of(shared.dir).size() == 1);  // state
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("a user outside the group is refused") {
  try {
    SharedDirectory shared;
    CHECK(As(12003, {}, [&] {
            return refused(*open_in(shared.dir), request("k")) == Errc::denied ? 0 : 1;
          }).wait() == 0);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

// ---- what a member must not be able to do ------------------------------------------------------
namespace {

namespace fs = std::filesystem;

// What the member does in one moment: every name at that depth becomes a link that leads outside.
int lead_outside(const fs::path& locks, int depth, const Precious& to) {
  std::vector<fs::path> names;
  for (auto at =
           fs::recursive_directory_iterator(locks, fs::directory_options::skip_permission_denied);
       at != fs::recursive_directory_iterator(); ++at)
    if (at.depth() == depth) names.push_back(at->path());
  for (const fs::path& name : names) {
    struct stat st {};
    const std::string moved = name.string() + ".moved";
    if (::lstat(name.c_str(), &st) || ::rename(name.c_str(), moved.c_str())) return 1;
    const std::string& target = S_ISDIR(st.st_mode)    ? to.dir
                                : S_ISFIFO(st.st_mode) ? to.fifo
                                                       : to.file;
    if (::symlink(target.c_str(), name.c_str())) return 2;
  }
  return 0;
}

}  // namespace

// A member may rename anything in there, at any moment. This once made root's dlock give a file of
// the member's choice mode 0660, because the mode of a new FIFO was set by name.
TEST_CASE(
    "links that a member puts over dlock's names, at any system call, change nothing outside") {
  try {
    const auto depth = GENERATE(0, 1, 2);
    const char* const recipe = GENERATE("lease", "flock");
    if (depth == 2 && std::string_view(recipe) == "lease") return;  // no files at that depth
    int steps = 0;
    for (bool ended = false; !ended; ++steps) {
      SharedDirectory shared;
      const Precious precious(shared.parent);
      Traced root([&](const std::function<void()>& halt) {
        ::umask(077);
        const auto backend = open_recipe(shared.dir, recipe);
        halt();
        use_key(*backend, recipe[0] == 'l');
      });
      for (int i = 0; i < steps && !ended; ++i) ended = !root.step();
      if (ended) break;
      INFO("recipe " << recipe << ", depth " << depth << ", halt " << steps);
      // 1: the name has just gone
      (void)As(12002, {team}, [&] { return lead_outside(shared.dir, depth, precious); }).wait();
      (void)root.finish();
      precious.check_untouched();
    }
    CHECK(steps > 40);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("a foreign FIFO put in place of a waiter's gets no message") {
  try {
    SharedDirectory shared;
    const Precious precious(shared.parent);
    const auto backend = open_in(shared.dir), other = open_in(shared.dir);
    const Granted held = take(*backend, request("k"));
    const auto before = files_of(shared.dir);
    auto waiter = in_queue(*other, request("k"));
    for (const std::string& name : files_of(shared.dir)) {
      if (std::find(before.begin(), before.end(), name) != before.end()) continue;
      const std::string path = shared.dir + "/k/" + name;  // the waiter's
      REQUIRE(::unlink(path.c_str()) == 0);
      SECTION("a second link to it") { REQUIRE(::link(precious.fifo.c_str(), path.c_str()) == 0); }
      SECTION("the FIFO itself") {
        REQUIRE(::rename(precious.fifo.c_str(), path.c_str()) == 0);
        REQUIRE(::symlink(path.c_str(), precious.fifo.c_str()) == 0);
      }
    }
    (void)backend->release(held.lease);
    char byte = 0;
    CHECK(::read(precious.reader.get(), &byte, 1) == -1);
  } catch (const Skip& skip) { note_skip(skip.why); }
}
