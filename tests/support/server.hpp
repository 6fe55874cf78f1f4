// SPDX-License-Identifier: Apache-2.0
// Shared by all throw-away servers of the tests.
#pragma once
#include <pwd.h>
#include <sys/types.h>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "support/temp_dir.hpp"

namespace dlock::test {

// Status of a test program that could not run because a server program is not installed; ctest
// shows it as skipped. With CI=true in the environment it is a failure instead.
inline constexpr int skipped = 77;
int without(std::string_view program);  // prints it; returns the exit status
bool installed(std::string_view program);

// Where data is that need not be durable, in memory if there is a /dev/shm; or else on a disk.
std::string data_place(bool durable);

using TestDirectory = TempDir;

// A port for a server. Nothing else gets it until this process ends.
std::uint16_t free_port();

void write_file(const std::string& path, std::string_view text);  // throws

// How a program is started that dies with the test program, in its own process group (a Ctrl-C at
// the terminal is for the tests), and with its standard descriptors on /dev/null, or its output in
// the file `log`.
struct ServerStart {
  std::vector<std::string> environment{};  // "LD_PRELOAD=..."
  std::string log{};
  const passwd* user = nullptr;  // whom it runs as
  int dies_by = 9;               // SIGKILL
};
pid_t start_server(const std::vector<std::string>& words, const ServerStart& = {});

// One that was started; ends with the object.
class ServerProcess {
 public:
  ServerProcess() = default;
  explicit ServerProcess(pid_t pid) noexcept : pid_(pid) {}
  ServerProcess(ServerProcess&& o) noexcept : pid_(std::exchange(o.pid_, -1)) {}
  ServerProcess& operator=(ServerProcess&&) noexcept;
  ~ServerProcess() { kill(); }

  pid_t pid() const noexcept { return pid_; }  // -1: it does not run
  bool ended();                                // and is reaped
  void kill();                                 // SIGKILL, reaped
  void freeze();                               // SIGSTOP; returns when it has stopped
  void thaw();

 private:
  pid_t pid_ = -1;
};

}  // namespace dlock::test
