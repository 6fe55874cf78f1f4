// SPDX-License-Identifier: Apache-2.0
// Figures of recipe lease and get-lock on a real server, and the promises that are counts.
// mysql_prove [--full|rates|crowd]
//
// Counts of statements are our own and the server's (Questions) and are asserted; times are printed
// and compared with mariadb-slap running the raw statements on the same server in the same run.
#include "prove.hpp"
#include <cstdio>
#include <cstring>

using namespace dlock;
using namespace dlock::prove;

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (!mariadb_installed()) return without(mariadbd);
  const bool full = argc > 1 && std::strcmp(argv[1], "--full") == 0;
  if (argc > 1 && std::strcmp(argv[1], "rates") == 0) return rates(true), failed;
  if (argc > 1 && std::strcmp(argv[1], "crowd") == 0) return crowd(1000), failed;
  MariadbServer memory;
  gone(memory);  // first: it forks
  fifo(memory, 40, full ? 10 : 2);
  contended(memory, 8, full ? 4000 : 800, 9.3, 1.1);
  contended(memory, 200, full ? 4000 : 1000, 11.6, 2.2);
  if (full) contended(memory, 500, 4000, 13.0, 2.8);
  crowd(full ? 1000 : 100);
  rates(full);
  if (full) {
    MariadbServer disk{{.on_disk = true}};
    contended(disk, 8, 1000, 9.3, 1.1);
  }
  return failed ? 1 : 0;
}
