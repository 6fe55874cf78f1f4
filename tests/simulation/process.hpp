// SPDX-License-Identifier: Apache-2.0
// A simulated process, as its system calls see it: descriptors, clocks, a thread that waits in
// poll(2). It can be stopped, killed and, with its machine, put to sleep.
#pragma once
#include <poll.h>
#include <sys/epoll.h>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include "simulation/file_system.hpp"
#include "simulation/network.hpp"
#include "simulation/world.hpp"

namespace dlock::simulation {

class Process {
 public:
  Process(World& world, Network& network, Machine& machine, std::string name, std::uint64_t seed);
  virtual ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& name() const noexcept { return name_; }
  bool alive() const noexcept { return !dead_; }
  Nanos clock() const noexcept { return machine_.clock(world_.now()); }
  // Something that it may wait for has happened.
  void changed();
  // What it was given so far: equal processes with equal pasts act alike.
  std::uint64_t past() const noexcept { return past_; }

  // ---- system calls; errors as -errno
  void time(clockid_t, timespec*);
  void random(void* to, std::size_t size);
  void start_thread(std::function<void()> work);
  int new_counter();  // eventfd(2)
  int write_counter(int fd);
  std::optional<std::uint64_t> read_counter(int fd);
  int new_watch();  // epoll(7)
  int change_watch(int fd, int operation, int watched);
  int new_socket();
  int connect(int fd);
  void shut(int fd);  // shutdown(2), both directions: what has arrived can still be read
  int socket_error(int fd);
  long send(int fd, const void* bytes, std::size_t size);
  long receive(int fd, void* to, std::size_t size);
  int poll(pollfd*, nfds_t, std::optional<Nanos> timeout);
  void close(int fd);
  // On files (file_calls.cpp). False: it is dead. Others may run before it, as they do on a machine
  // with several processors.
  bool enters_kernel();
  void others_run();
  int add_open(OpenPtr);
  const OpenPtr& opened(int fd) noexcept;  // nullptr: no file
  FileSystem& files() const noexcept { return *world_.files; }
  void stirred(const Node&);  // a FIFO that it may have open
  static constexpr int first_fd = 1 << 20;

 protected:
  virtual void turn() = 0;  // of the main thread: something may have changed
  virtual bool wants_turn() const = 0;
  virtual void has_died() = 0;       // the kernel tells others
  virtual void leave_threads() = 0;  // what makes the thread of a dead process end soon
  virtual void machine_sleeps() = 0;
  virtual void machine_woke() = 0;
  bool rings(int fd) const noexcept;  // an eventfd(2) that can be read
  void look_at(Nanos when);           // wants_turn() may change then
  void die();                         // killed, or exits
  bool halted() const noexcept { return machine_.asleep || world_.now() < stopped_until_; }
  void remember(std::uint64_t seen) noexcept { past_ = mixed(past_, seen); }

  World& world_;
  Network& network_;
  Machine& machine_;

 private:
  struct Descriptor {
    enum class Kind { counter, watch, socket, file } kind;
    std::uint64_t count = 0;
    std::vector<int> watched;
    LinkPtr link{};
    OpenPtr open{};
  };
  Descriptor* find(int fd) noexcept;
  int add(Descriptor);
  short events_of(const Descriptor&, short wanted) const noexcept;
  int look(pollfd*, nfds_t) noexcept;
  // Where the schedule may stop or end it. False: it is dead.
  bool step();
  bool waits_in_step();
  void suffer(const Fault&);
  void woke(Nanos slept);  // its machine
  void go();
  void continues();
  void run_thread();

  std::string name_;
  Dice dice_;
  std::uint64_t past_;
  std::map<int, Descriptor> descriptors_;
  int next_fd_ = first_fd;
  std::unique_ptr<Fiber> thread_;
  bool running_ = false, dead_ = false, due_ = false;
  Nanos drained_ = 0;  // how far the clock of a dead process has run on
  Nanos stopped_until_ = 0, others_run_until_ = 0;
  std::uint64_t others_run_one_in_;
  enum class In { nothing, start, poll, step } in_ = In::nothing;
  pollfd* polled_ = nullptr;
  nfds_t polled_size_ = 0;
  std::optional<Nanos> poll_until_;
  std::uint64_t wait_ = 0;  // counts the waits, so that an old timer ends none
  std::uint64_t calls_ = 0, file_calls_ = 0;
  Nanos calls_at_ = -1;
};

}  // namespace dlock::simulation
