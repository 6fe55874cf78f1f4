// SPDX-License-Identifier: Apache-2.0
// Recipe flock in a directory that all users may write to (mode 1777, as /run/lock): what one user
// leaves there bars no other from the locks, and is not taken for the other's own.
#include "file/flock/flock_record.hpp"
#include "stores/file/traced.hpp"
#include "stores/file/users.hpp"

using namespace dlock;
using namespace dlock::contract;

namespace {

constexpr uid_t alice = 12001, mallory = 12002;

struct OpenDirectory : SharedDirectory {
  OpenDirectory() : SharedDirectory(01777) {}
  std::unique_ptr<Backend> open() const { return open_recipe(dir, "flock"); }
  // With the usual umask, so that others may lock the file.
  bool gets(uid_t user, const std::string& name) const {
    const int status = As(user, {}, [&] {
                         ::umask(022);
                         return free_now(*open(), request(name)) ? 0 : 1;
                       }).wait();
    REQUIRE((status == 0 || status == 1));
    return status == 0;
  }
  std::string records_of(uid_t user) const { return dir + "/.dlock-" + std::to_string(user); }
};

enum class Kind { private_dir, open_dir, file, fifo, link_outside, dangling_link };

int plant(Kind kind, const std::string& path, const std::string& outside) {
  const char* const at = path.c_str();
  switch (kind) {
    case Kind::private_dir: return ::mkdir(at, 0700);
    case Kind::open_dir: return ::mkdir(at, 0777) || ::chmod(at, 0777);
    case Kind::file: return ::mknod(at, S_IFREG | 0666, 0);
    case Kind::fifo: return ::mkfifo(at, 0666);
    case Kind::link_outside: return ::symlink(outside.c_str(), at);
    case Kind::dangling_link: return ::symlink("missing", at);
  }
  return 1;
}

}  // namespace

TEST_CASE("all users: each gets locks, whoever came first, and they exclude each other") {
  try {
    const OpenDirectory d;
    const auto order =
        GENERATE(std::vector<uid_t>{alice, mallory, 0}, std::vector<uid_t>{0, mallory, alice});
    for (const uid_t user : order) CHECK(d.gets(user, "of-" + std::to_string(user)));
    for (const uid_t user : order) CHECK(d.gets(user, "k"));
    Event held, go;
    As first(order.front(), {}, [&] {
      const auto backend = d.open();
      const Granted g = take(*backend, request("k"));
      held.set();
      if (!go.comes()) return 1;
      return backend->release(g.lease).value() == Released::yes ? 0 : 2;
    });
    REQUIRE(held.comes());
    for (const uid_t user : order) CHECK_FALSE(d.gets(user, "k"));
    go.set();
    CHECK(first.wait() == 0);
    CHECK(d.gets(order.back(), "k"));
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("all users: tokens rise from user to user") {
  try {
    const OpenDirectory d;
    FencingToken last = 0;
    for (const uid_t user : {0U, alice, 0U, mallory, alice}) {
      int fds[2];
      REQUIRE(::pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
      const Fd reader(fds[0]), writer(fds[1]);
      CHECK(As(user, {}, [&] {
              ::umask(022);
              const FencingToken token = take(*d.open(), request("k")).lease.token;
              return ::write(writer.get(), &token, sizeof token) == sizeof token ? 0 : 1;
            }).wait() == 0);
      FencingToken token = 0;
      REQUIRE(::read(reader.get(), &token, sizeof token) == sizeof token);
      CHECK(token > last);
      last = token;
    }
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("all users: a lock of another user is shown by its process, and not to be forced") {
  try {
    const OpenDirectory d;
    REQUIRE(d.gets(0, "k"));
    Event held, go;
    As other(alice, {}, [&] {
      const auto backend = d.open();
      take(*backend, request("k"));
      held.set();
      return go.comes() ? 0 : 1;
    });
    REQUIRE(held.comes());
    const auto view = d.open()->inspect(key("k")).value().value();
    REQUIRE(view.holders.size() == 1);
    CHECK(view.holders.front().who.of_this_host());
    CHECK(view.holders.front().who.user == std::to_string(alice));
    const auto forced = d.open()->force_release(key("k"), {});
    REQUIRE_FALSE(forced);
    CHECK(forced.error().code == Errc::usage);
    go.set();
    CHECK(other.wait() == 0);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("all users: a nested run of another user finds the lock of its outer run") {
  try {
    const OpenDirectory d;
    REQUIRE(d.gets(0, "k"));
    const bool has_record = GENERATE(true, false);
    if (!has_record) {
      std::filesystem::remove_all(d.records_of(0));
      REQUIRE(As(mallory, {}, [&] { return ::mkdir(d.records_of(0).c_str(), 0700); }).wait() == 0);
    }
    const auto backend = d.open();
    const Granted g = take(*backend, request("k"));
    const auto nested_is = [&](Validity wanted) {
      return As(alice, {}, [&] {
               const auto valid = d.open()->check_outer(g.lease, ::getppid());
               return valid && *valid == wanted ? 0 : 1;
             }).wait() == 0;
    };
    CHECK(nested_is(Validity::valid));
    CHECK(d.open()->check_outer(g.lease, ::getpid()).value() == Validity::valid);
    REQUIRE(::chmod(d.dir.c_str(), 0755) == 0);
    CHECK(d.open()->check_outer(g.lease, ::getpid()).value() == Validity::valid);
    REQUIRE(::chmod(d.dir.c_str(), 01777) == 0);
    CHECK(backend->release(g.lease).value() == Released::yes);
    CHECK(nested_is(Validity::stale));
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("all users: a stranger's lock is none of an outer run, whatever the environment says") {
  try {
    const OpenDirectory d;
    REQUIRE(d.gets(0, "k"));
    const auto backend = d.open();
    const Granted g = take(*backend, request("k"));
    const int status = As(alice, {}, [&] {
                         const auto forged = d.open()->check_outer(g.lease, ::getpid());
                         return !forged && forged.error().code == Errc::denied ? 0 : 1;
                       }).wait();
    CHECK(status == 0);
    CHECK(backend->release(g.lease).value() == Released::yes);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("all users: what a stranger puts in the place of the records bars nobody") {
  try {
    const OpenDirectory d;
    const Precious precious(d.parent);
    const auto kind = GENERATE(Kind::private_dir, Kind::open_dir, Kind::file, Kind::fifo,
                               Kind::link_outside, Kind::dangling_link);
    REQUIRE(As(mallory, {}, [&] { return plant(kind, d.records_of(0), precious.dir); }).wait() ==
            0);
    const auto backend = d.open();
    const Granted g = take(*backend, request("k"));
    CHECK(g.lease.token > 0);
    REQUIRE(backend->health().warnings.size() == 1);
    CHECK_THAT(backend->health().warnings.front(), Catch::Contains(d.records_of(0)));
    CHECK_FALSE(d.gets(alice, "k"));
    CHECK(kept(backend->renew(g.lease, 1h)));
    // Nobody knows the grant, so nobody says that it has ended.
    CHECK_FALSE(d.open()->check(key("k"), g.lease.owner));
    CHECK_FALSE(d.open()->check(key("k"), g.lease.token));
    CHECK(backend->release(g.lease).value() == Released::yes);
    CHECK(d.gets(alice, "k"));
    precious.check_untouched();
    CHECK(::access((d.dir + "/missing").c_str(), F_OK) == -1);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("all users: records that another user made are not taken for one's own") {
  try {
    const OpenDirectory d;
    constexpr FencingToken forged = FencingToken{1} << 60U;
    REQUIRE(As(mallory, {}, [&] {
              const file::Directory where(d.dir, ".dlock-" + std::to_string(mallory),
                                          file::Directory::Make::nothing, false);
              file::FlockRecord record(where, "k", "k", 5s);
              LockState::Holder holder;
              holder.owner = Owner::random();
              holder.token = forged;
              return record.enter_again(holder) ? 0 : 1;
            }).wait() == 0);
    REQUIRE(::rename(d.records_of(mallory).c_str(), d.records_of(0).c_str()) == 0);
    const std::string before = content(d.records_of(0) + "/k/state");
    const auto backend = d.open();
    const Granted g = take(*backend, request("k"));
    CHECK(g.lease.token < forged);
    CHECK(backend->release(g.lease).value() == Released::yes);
    CHECK((content(d.records_of(0) + "/k/state") == before));  // not shown: Catch needs minutes
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("all users: links that a stranger makes at any system call change nothing outside") {
  try {
    int steps = 0;
    for (bool ended = false; !ended; ++steps) {
      const OpenDirectory d;
      const Precious precious(d.parent);
      Traced root([&](const std::function<void()>& halt) {
        ::umask(077);
        const auto backend = d.open();
        halt();
        use_key(*backend, false);
      });
      for (int i = 0; i < steps && !ended; ++i) ended = !root.step();
      if (ended) break;
      INFO("halt " << steps);
      (void)As(mallory, {}, [&] {
        (void)::symlink(precious.file.c_str(), (d.dir + "/k").c_str());
        return ::symlink(precious.dir.c_str(), d.records_of(0).c_str());
      }).wait();
      (void)root.finish();
      precious.check_untouched();
    }
    CHECK(steps > 40);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("all users: no key is named as the records of a user") {
  const test::TempDir dir;
  CHECK_FALSE(open_recipe(dir.path(), "flock")->enqueue(request(".dlock-0")));
  CHECK(open_recipe(dir.path(), "flock")->enqueue(request(".dlocks")));
}
