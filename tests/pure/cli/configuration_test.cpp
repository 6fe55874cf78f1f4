// SPDX-License-Identifier: Apache-2.0
#include "cli/options/configuration.hpp"
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <fstream>
#include "support/temp_dir.hpp"

using namespace dlock;
using namespace dlock::cli;

namespace {

struct Files {
  test::TempDir dir;
  std::vector<ConfigFile> list;
  void add(const std::string& text) {
    list.push_back({dir.path() + "/" + std::to_string(list.size()), true});
    std::ofstream(list.back().path) << text;
  }
};

// "name=value@layer" of each entry, in order.
std::string entries(const Files& files, std::string_view profile = {}) {
  const auto all = read_configuration(files.list, profile);
  if (!all) return "error: " + all.error().message;
  std::string text;
  for (const Entry& e : *all)
    text += std::string(e.name) + "=" + std::string(e.value) + "@" + std::to_string(e.layer) + " ";
  return text;
}

}  // namespace

TEST_CASE("files in order of priority; a chosen profile overrides everything outside of it") {
  Files files;
  files.add("ttl = '1m'\n[profile.p]\nwait = 2\n[profile.q]\nwait = 'unread'\n");
  files.add("ttl = '2m'\nquiet = true\n[profile.p]\nsplay = 1.5\n");
  CHECK(entries(files) == "ttl=1m@2 ttl=2m@3 quiet=true@3 ");
  CHECK(entries(files, "p") == "wait=2@0 splay=1.5@1 ttl=1m@2 ttl=2m@3 quiet=true@3 ");
  CHECK(entries(files, "none") == "error: --profile: no configuration file has [profile.none]");
}

TEST_CASE("a profile may be empty, a file too") {
  Files files;
  files.add("");
  files.add("[profile.p]\n");
  CHECK(entries(files).empty());
  CHECK(entries(files, "p").empty());
}

TEST_CASE("an entry has its file and line; so does an error") {
  Files files;
  files.add("# first\n\nwait = 1\n");
  const auto all = read_configuration(files.list, {});
  REQUIRE(all);
  CHECK(all->front().where == files.list[0].path + ":3");

  for (const auto* text : {"wait = \n", "wait = [1]\n", "wait = {a = 1}\n", "wait = ''\n",
                           "profile = 3\nprofile.p = 4\n", "wait = 1\nwait = 2\n",
                           "[wait]\nx = 1\n", "profile.p = 1\n"}) {
    Files bad;
    bad.add(text);
    INFO(text);
    const std::string error = entries(bad);
    CHECK(error.starts_with("error: " + bad.list[0].path + ":"));
    CHECK(error.find('\n') == std::string::npos);
  }
}

TEST_CASE("only a required file must exist, and no other user may write to it") {
  Files files;
  files.list.push_back({files.dir.path() + "/none", false});
  CHECK(entries(files).empty());
  files.list[0].required = true;
  CHECK(entries(files).starts_with("error: " + files.list[0].path + ": No such file"));

  Files open;
  open.add("wait = 1\n");
  REQUIRE(::chmod(open.list[0].path.c_str(), 0666) == 0);
  CHECK(entries(open).find("all users may write to it") != std::string::npos);
}
