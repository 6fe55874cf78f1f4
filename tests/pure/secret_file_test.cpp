// SPDX-License-Identifier: Apache-2.0
// As root: what belongs to another user is made by chown.
#include "util/secret_file.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include "util/fd.hpp"
#include "util/file.hpp"

using namespace dlock;
namespace fs = std::filesystem;

namespace {

constexpr uid_t other = 65534;

// A directory that others may not write to, and the user that reads: root, or somebody else.
struct Scene {
  Scene() {
    char name[] = "/tmp/dlock-secret-XXXXXX";
    REQUIRE(::mkdtemp(name));
    dir = fs::canonical(name).string();
    REQUIRE(::chmod(dir.c_str(), 0755) == 0);
  }
  Scene(const Scene&) = delete;
  ~Scene() {
    as(0);
    fs::remove_all(dir);
  }
  static void as(uid_t user) { REQUIRE(::seteuid(user) == 0); }
  std::string path(const std::string& name) const { return dir + "/" + name; }
  std::string file(const std::string& name, mode_t mode, uid_t owner = 0,
                   const std::string& text = "canary\nmore\n") const {
    std::ofstream(path(name)) << text;
    REQUIRE(::chown(path(name).c_str(), owner, 0) == 0);
    REQUIRE(::chmod(path(name).c_str(), mode) == 0);
    return path(name);
  }
  void directory(const std::string& name, mode_t mode, uid_t owner = 0) const {
    fs::create_directory(path(name));
    REQUIRE(::chown(path(name).c_str(), owner, 0) == 0);
    REQUIRE(::chmod(path(name).c_str(), mode) == 0);
  }
  void link(const std::string& target, const std::string& name, uid_t owner = 0) const {
    fs::create_symlink(target, path(name));
    REQUIRE(::lchown(path(name).c_str(), owner, 0) == 0);
  }
  std::string dir;
};

bool accepted(const std::string& path) {
  const auto secret = read_secret(path);
  if (secret) CHECK(secret->text == "canary");
  return secret.has_value();
}
std::string refusal(const std::string& path) {
  const auto secret = read_secret(path);
  REQUIRE_FALSE(secret);
  CHECK(secret.error().code == Errc::config);
  CHECK(secret.error().message.find("canary") == std::string::npos);
  return secret.error().message;
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool is_root() {
  if (::geteuid() == 0) return true;
  WARN("skipped: not root");
  return false;
}

}  // namespace

TEST_CASE("a secret of the user's own lets nobody else in") {
  if (!is_root()) return;
  const Scene s;
  for (const mode_t bad : {0644, 0640, 0604, 0620, 0610, 0601})
    CHECK(has(refusal(s.file("own", bad, other)), "to you nor to root"));
  Scene::as(other);
  for (const mode_t good : {0600, 0400}) {
    Scene::as(0);
    s.file("own", good, other);
    Scene::as(other);
    CHECK(accepted(s.path("own")));
    CHECK(readers_of_secret(s.path("own")) == "its owner alone may read it");
  }
  for (const mode_t bad : {0644, 0640, 0604, 0620, 0610, 0601}) {
    Scene::as(0);
    s.file("own", bad, other);
    Scene::as(other);
    CHECK(has(refusal(s.path("own")), "lets others in; use chmod 600"));
  }
  Scene::as(0);
  CHECK(has(refusal(s.file("roots", 0444)), "lets others in"));  // root may write to it
}

TEST_CASE("a secret of root's that the user may not write is accepted, as platforms mount it") {
  if (!is_root()) return;
  const Scene s;
  for (const mode_t good : {0444, 0440, 0644}) {
    Scene::as(0);
    s.file("mounted", good | 0004);
    Scene::as(other);
    CHECK(accepted(s.path("mounted")));
    CHECK(readers_of_secret(s.path("mounted")) == "all users of this machine may read it");
  }
  Scene::as(0);
  s.file("listed", 0440);
  // as systemd's LoadCredential=: owner, a named user, group (none), mask, others (none)
  const std::uint32_t acl[] = {2, 0x40001, ~0U, 0x40002, other, 0x4, ~0U, 0x40010, ~0U, 0x20, ~0U};
  const bool has_acl =
      ::setxattr(s.path("listed").c_str(), "system.posix_acl_access", acl, sizeof acl, 0) == 0;
  Scene::as(other);
  if (has_acl) CHECK(accepted(s.path("listed")));
  if (has_acl)
    CHECK(readers_of_secret(s.path("listed")) == "its ACL says who may read it (getfacl)");
  for (const mode_t bad : {0666, 0664, 0646}) {
    Scene::as(0);
    s.file("mounted", bad);
    Scene::as(other);
    CHECK(has(refusal(s.path("mounted")), "others may write to it"));
  }
}

TEST_CASE("links are followed where nobody else can replace them") {
  if (!is_root()) return;
  const Scene s;
  // As Kubernetes: a volume that all may write to, sticky, with a chain of links of root's.
  s.directory("volume", 01777);
  s.directory("volume/..2026", 0755);
  s.file("volume/..2026/pw", 0444);
  s.link("..2026", "volume/..data");
  s.link("..data/pw", "volume/pw");
  Scene::as(other);
  CHECK(accepted(s.path("volume/pw")));
  CHECK(accepted(s.path("volume//./..data/../pw")));
  Scene::as(0);

  SECTION("a directory that others may write to, without the sticky bit") {
    s.directory("volume", 0777);
    Scene::as(other);
    CHECK(has(refusal(s.path("volume/pw")), "'volume', on the way to it, is a directory that"));
    CHECK(has(refusal(s.path("volume/..2026/pw")), "on the way"));  // of root's, without a link
  }
  SECTION("a directory of somebody else's") {
    s.directory("volume", 01777, 1234);
    Scene::as(other);
    CHECK(has(refusal(s.path("volume/pw")), "belongs neither to you nor to root"));
  }
  SECTION("a link of somebody else's") {
    REQUIRE(::lchown(s.path("volume/pw").c_str(), 1234, 0) == 0);
    Scene::as(other);
    CHECK(has(refusal(s.path("volume/pw")), "is a link of another user"));
  }
  SECTION("an absolute link begins at the root") {
    s.link(s.path("volume/pw"), "absolute");
    s.link("absolute", "again");
    Scene::as(other);
    CHECK(accepted(s.path("again")));
  }
  SECTION("a circle ends") {
    s.link("b", "a");
    s.link("a", "b");
    CHECK(has(refusal(s.path("a")), "symbolic links"));
  }
  SECTION("to the user's own file the same rule holds") {
    s.file("own", 0600, other);
    s.link("own", "to_own");
    s.link("nowhere", "to_nothing");
    Scene::as(other);
    CHECK(accepted(s.path("to_own")));
    CHECK(has(refusal(s.path("to_nothing")), "No such file"));
  }
}

TEST_CASE("a pipe of the user's own is read once") {
  const Scene s;
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  Fd from(ends[0]), to(ends[1]);
  std::thread writer([&] {
    (void)write_all(to.get(), "canary\n");
    to = Fd{};
  });
  const auto secret = read_secret(fmt::format("/dev/fd/{}", from.get()));
  writer.join();
  REQUIRE(secret);
  CHECK(secret->text == "canary");
  CHECK(secret->once);
  CHECK_FALSE(read_secret(s.file("own", 0600))->once);
  CHECK(judge_secret(s.path("own")));
  CHECK(has(judge_secret(fmt::format("/dev/fd/{}", from.get())).error().message, "regular file"));
  REQUIRE(::mkfifo(s.path("fifo").c_str(), 0644) == 0);
  CHECK(has(judge_secret(s.path("fifo")).error().message, "lets others in"));
}

TEST_CASE("what is no secret is refused, and says why") {
  const Scene s;
  CHECK(has(refusal(s.file("bom", 0600, ::geteuid(),
                           "\xef\xbb\xbf"
                           "canary\n")),
            "byte order mark"));
  CHECK(has(refusal(s.file("empty", 0600, ::geteuid(), "\ncanary\n")), "first line is empty"));
  CHECK(has(refusal(s.file("long", 0600, ::geteuid(), std::string(5000, 'x'))), "longer than"));
  CHECK(has(refusal(s.dir), "is a directory"));
  CHECK(has(refusal("/dev/null"), "is not a regular file"));
  CHECK(has(refusal(s.path("none")), "No such file"));
  CHECK(accepted(s.file("windows", 0600, ::geteuid(), "canary\r\n")));
  CHECK_FALSE(read_credential(s.path("windows")));
}
