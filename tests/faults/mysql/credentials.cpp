// SPDX-License-Identifier: Apache-2.0
// Passwords and certificates that change while a lock is held.
#include <filesystem>
#include "faults.hpp"
#include "support/certificates.hpp"
#include "support/secret_file.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("a password that the server refuses is read again from its file") {
  Database db{server()};
  const auto set_password = [&](const std::string& password) {
    server().sql(fmt::format(
        "CREATE OR REPLACE USER fresh@'%' IDENTIFIED BY '{}'; GRANT ALL ON *.* TO fresh@'%'",
        password));
    kill_sessions(db);
  };
  set_password("first");
  const SecretFile file{"first"};
  Settings settings = quick(2s, 2s);
  settings.password = "first";
  settings.password_file = file.path();
  const auto backend = open_mysql(
      fmt::format("mysql://fresh@127.0.0.1:{}/{}", server().port(), db.name()), settings);
  const Lease lease = acquire_or_fail(*backend, request(key("k"), 30s));
  set_password("second");
  const auto refused = backend->renew(lease, 30s);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::denied);
  file.write("second");
  CHECK(kept(backend->renew(lease, 30s)));
}

TEST_CASE("a certificate authority that was replaced is read again") {
  TestDirectory dir;
  const Authority ours{dir.path(), "ours"}, theirs{dir.path(), "theirs"};
  const auto before = ours.issue("before", "DNS:localhost"),
             after = theirs.issue("after", "DNS:localhost");
  const std::string cert = dir.path() + "/cert", key_file = dir.path() + "/key",
                    ca = dir.path() + "/ca";
  const auto install = [&](const Authority::Files& files) {
    const auto over = std::filesystem::copy_options::overwrite_existing;
    std::filesystem::copy_file(files.cert, cert, over);
    std::filesystem::copy_file(files.key, key_file, over);
  };
  install(before);
  std::filesystem::copy_file(ours.file(), ca);
  MariadbServer own{{.config = {"ssl-cert=" + cert, "ssl-key=" + key_file}}};
  Database db{own};
  const auto backend = open_mysql(
      fmt::format("mysql://root@localhost:{}/{}?tls=yes&tls_ca={}", own.port(), db.name(), ca),
      quick(2s, 2s));
  const Lease lease = acquire_or_fail(*backend, request(key("k"), 30s));
  install(after);
  db.sql("FLUSH SSL");
  kill_sessions(db);
  const auto refused = backend->renew(lease, 30s);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::denied);
  std::filesystem::copy_file(theirs.file(), ca, std::filesystem::copy_options::overwrite_existing);
  CHECK(kept(backend->renew(lease, 30s)));
}
