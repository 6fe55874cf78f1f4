// SPDX-License-Identifier: Apache-2.0
// Certificates that change while a lock is held.
#include <filesystem>
#include "faults.hpp"
#include "support/certificates.hpp"

using namespace dlock;
using namespace dlock::test;

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
      patient());
  const Lease lease = acquire_or_fail(*backend, request(key("k"), 60s));
  install(after);
  db.sql("FLUSH SSL");
  kill_sessions(db);
  const auto refused = backend->renew(lease, 60s);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::denied);
  std::filesystem::copy_file(theirs.file(), ca, std::filesystem::copy_options::overwrite_existing);
  CHECK(kept(backend->renew(lease, 60s)));
}
