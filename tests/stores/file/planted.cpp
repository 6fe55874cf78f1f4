// SPDX-License-Identifier: Apache-2.0
// Files planted in place of dlock's own, and modes that let other users do so: refused, and not
// touched.
#include "stores/file/lease_files.hpp"

using namespace dlock;
using namespace dlock::contract;

namespace {

// A directory with key `k` used and free again.
struct Used {
  test::TempDir dir;
  std::unique_ptr<Backend> backend = open_in(dir.path());
  std::string state = state_of(dir.path());
  Used() { REQUIRE(backend->release(take(*backend, request("k")).lease)); }
  // A request by a Backend that is opened after the file was planted.
  Errc refusal(const std::string& part) {
    const auto fresh = open_in(dir.path());
    std::string message;
    const auto code = refused(*fresh, request("k"), &message);
    INFO(message);
    CHECK_THAT(message, Catch::Contains(part));
    CHECK(message.find('\n') == message.npos);
    REQUIRE(code);
    return *code;
  }
};

void need_root() { need(::geteuid() == 0, "root, as only root can give files away"); }

}  // namespace

TEST_CASE("a symbolic link as state is not followed") {
  Used u;
  const std::string victim = u.dir / "victim";
  const Fd made(::open(victim.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(::write(made.get(), "precious", 8) == 8);
  REQUIRE(::unlink(u.state.c_str()) == 0);
  REQUIRE(::symlink(victim.c_str(), u.state.c_str()) == 0);
  CHECK(u.refusal("symbolic link") == Errc::denied);
  CHECK(content(victim) == "precious");
}

TEST_CASE("a dangling link as state creates no file elsewhere") {
  Used u;
  REQUIRE(::unlink(u.state.c_str()) == 0);
  REQUIRE(::symlink((u.dir / "elsewhere").c_str(), u.state.c_str()) == 0);
  CHECK(u.refusal("symbolic link") == Errc::denied);
  CHECK(::access((u.dir / "elsewhere").c_str(), F_OK) == -1);
}

TEST_CASE("a FIFO, a directory or a device as state is refused without blocking") {
  Used u;
  REQUIRE(::unlink(u.state.c_str()) == 0);
  SECTION("FIFO") {
    REQUIRE(::mkfifo(u.state.c_str(), 0600) == 0);
    CHECK(u.refusal("not a regular file") == Errc::denied);
  }
  SECTION("directory") {
    REQUIRE(::mkdir(u.state.c_str(), 0700) == 0);
    CHECK(u.refusal("state") == Errc::denied);
  }
}

TEST_CASE(
    "a second hard link to the state is refused: through it another could lock dlock out or write "
    "to it") {
  Used u;
  REQUIRE(::link(u.state.c_str(), (u.dir / "second").c_str()) == 0);
  CHECK(u.refusal("hard links") == Errc::denied);
}

TEST_CASE("modes that let others write are refused") {
  Used u;
  SECTION("state") {
    REQUIRE(::chmod(u.state.c_str(), 0666) == 0);
    CHECK(u.refusal("mode 0666") == Errc::denied);
  }
  SECTION("directory of the key") {
    REQUIRE(::chmod((u.dir / "k").c_str(), 0777) == 0);
    CHECK(u.refusal("mode 0777") == Errc::denied);
  }
  SECTION("lock directory") {
    REQUIRE(::chmod(u.dir.path().c_str(), 0777) == 0);
    CHECK(u.refusal("all users may write") == Errc::denied);
  }
}

TEST_CASE("files of another user are refused") {
  try {
    need_root();
    Used u;
    SECTION("state") {
      REQUIRE(::chown(u.state.c_str(), 12001, 12001) == 0);
      CHECK(u.refusal("belongs to uid 12001") == Errc::denied);
    }
    SECTION("directory of the key") {
      REQUIRE(::chown((u.dir / "k").c_str(), 12001, 12001) == 0);
      CHECK(u.refusal("belongs to uid 12001") == Errc::denied);
    }
    SECTION("lock directory") {
      REQUIRE(::chown(u.dir.path().c_str(), 12001, 12001) == 0);
      CHECK(u.refusal("belongs to uid 12001") == Errc::denied);
    }
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("a link as directory of a key is not followed") {
  Used u;
  REQUIRE(::rename((u.dir / "k").c_str(), (u.dir / "moved").c_str()) == 0);
  REQUIRE(::symlink("moved", (u.dir / "k").c_str()) == 0);
  CHECK(u.refusal("it was replaced") == Errc::denied);
}

TEST_CASE("a planted waiter's FIFO that is not open does not stop the queue") {
  Used u;
  const Granted held = take(*u.backend, request("k"));
  const auto tickets = files_of(u.dir.path());
  // FIFOs with the next numbers, and a file with such a name.
  for (std::uint64_t n = 1; n < 40; ++n)
    ::mkfifo((u.dir / ("k/" + std::to_string(n))).c_str(), 0600);
  const auto other = open_in(u.dir.path());
  auto waiter = in_queue(*other, request("k"));
  REQUIRE(u.backend->release(held.lease));
  CHECK(take(*waiter).lease.token > held.lease.token);
}

namespace {

// Runs a job under `k` and returns what is recorded of it.
std::optional<LastRun> record_of_run(Backend& b, int status, const std::string& user = "0") {
  Request r = request("k");
  r.identity.user = user;
  const Granted g = take(b, r);
  REQUIRE(b.release(g.lease, RunEnd{false, status}).value() == Released::yes);
  return b.inspect(key("k")).value().value().last_run;
}

}  // namespace

TEST_CASE("the record of the last run: written in place, and shown only when it is whole") {
  Used u;
  const std::string last = u.dir / "k/last";
  REQUIRE(record_of_run(*u.backend, 1, std::string(40, '7')));
  struct stat before {
  }, after{};
  REQUIRE(::stat(last.c_str(), &before) == 0);
  const auto shorter = record_of_run(*u.backend, 2);
  REQUIRE(shorter);
  CHECK(shorter->end.value == 2);
  CHECK(shorter->who.user == "0");
  REQUIRE(::stat(last.c_str(), &after) == 0);
  CHECK(before.st_ino == after.st_ino);  // replacing it would cost a millisecond
  // torn: the begin of one and the end of another
  const std::string text = content(last);
  std::string torn = text;
  torn[text.find(' ') + 1] = text[text.find(' ') + 1] == '1' ? '2' : '1';
  for (const std::string& bad : {torn, text.substr(0, text.find('\n')), std::string{}}) {
    const Fd file(::open(last.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    REQUIRE(::write(file.get(), bad.data(), bad.size()) == static_cast<ssize_t>(bad.size()));
    CHECK_FALSE(u.backend->inspect(key("k")).value().value().last_run);
  }
  REQUIRE(record_of_run(*u.backend, 3));
}

TEST_CASE("what is planted as the record of the last run is replaced, and not written to") {
  Used u;
  const std::string last = u.dir / "k/last", victim = u.dir / "victim";
  const Fd made(::open(victim.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(::write(made.get(), "precious", 8) == 8);
  REQUIRE(record_of_run(*u.backend, 1));
  REQUIRE(::unlink(last.c_str()) == 0);
  SECTION("symbolic link") { REQUIRE(::symlink(victim.c_str(), last.c_str()) == 0); }
  SECTION("hard link") { REQUIRE(::link(victim.c_str(), last.c_str()) == 0); }
  SECTION("FIFO") { REQUIRE(::mkfifo(last.c_str(), 0600) == 0); }
  const auto run = record_of_run(*u.backend, 2);
  REQUIRE(run);
  CHECK(run->end.value == 2);
  CHECK(content(victim) == "precious");
}

TEST_CASE("a directory planted in the place of a note makes way") {
  Used u;
  const Granted held = take(*u.backend, request("k"));
  struct stat state {};
  REQUIRE(::stat(u.state.c_str(), &state) == 0);
  const bool full = GENERATE(false, true);
  for (const std::string& name :
       {std::string("revoke"), "revoke.new." + std::to_string(state.st_ino)}) {
    REQUIRE(::mkdir((u.dir / ("k/" + name)).c_str(), 0700) == 0);
    if (full) REQUIRE(::mkdir((u.dir / ("k/" + name + "/full")).c_str(), 0700) == 0);
  }
  CHECK(u.backend->revoke(key("k")).value() == Released::yes);
  CHECK(std::get<Kept>(u.backend->renew(held.lease, 60s).value()).revoked);
}

TEST_CASE("network filesystems are recognised by their magic numbers") {
  CHECK(file::network_filesystem(0x6969) == "NFS");
  CHECK(file::network_filesystem(0xFE534D42) == "SMB2");
  CHECK(file::network_filesystem(0x65735546) == "FUSE");
  CHECK_FALSE(file::network_filesystem(0xEF53));      // ext4
  CHECK_FALSE(file::network_filesystem(0x01021994));  // tmpfs
  CHECK_FALSE(file::network_filesystem(0x9123683E));  // btrfs
}
