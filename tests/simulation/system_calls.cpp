// SPDX-License-Identifier: Apache-2.0
// The system calls of dlock, as the linker's --wrap leads them here from the libraries under test,
// which are linked unchanged. While a simulated process runs they are its; else they are real.
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
#include <memory>
#include <thread>
#include "simulation/system_call.hpp"

using dlock::simulation::answer;
using dlock::simulation::caller;
using dlock::simulation::Nanos;
using dlock::simulation::Process;

namespace {

int poll_for(Process& p, pollfd* fds, nfds_t size, const timespec* timeout) {
  using dlock::simulation::second;
  return p.poll(
      fds, size,
      timeout ? std::optional<Nanos>{timeout->tv_sec * second + timeout->tv_nsec} : std::nullopt);
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names
extern "C" {

int __real_clock_gettime(clockid_t, timespec*);
int __wrap_clock_gettime(clockid_t which, timespec* to) {
  Process* const p = caller();
  if (!p) return __real_clock_gettime(which, to);
  p->time(which, to);
  return 0;
}

ssize_t __real_getrandom(void*, std::size_t, unsigned);
ssize_t __wrap_getrandom(void* to, std::size_t size, unsigned flags) {
  Process* const p = caller();
  if (!p) return __real_getrandom(to, size, flags);
  p->random(to, size);
  return static_cast<ssize_t>(size);
}

int __real_poll(pollfd*, nfds_t, int);
int __wrap_poll(pollfd* fds, nfds_t size, int ms) {
  Process* const p = caller();
  if (!p) return __real_poll(fds, size, ms);
  const timespec t{ms / 1000, ms % 1000 * 1'000'000L};
  return poll_for(*p, fds, size, ms < 0 ? nullptr : &t);
}

int __real_ppoll(pollfd*, nfds_t, const timespec*, const sigset_t*);
int __wrap_ppoll(pollfd* fds, nfds_t size, const timespec* timeout, const sigset_t* mask) {
  Process* const p = caller();
  return p ? poll_for(*p, fds, size, timeout) : __real_ppoll(fds, size, timeout, mask);
}

int __real_eventfd(unsigned, int);
int __wrap_eventfd(unsigned first, int flags) {
  Process* const p = caller();
  return p ? p->new_counter() : __real_eventfd(first, flags);
}

int __real_eventfd_write(int, eventfd_t);
int __wrap_eventfd_write(int fd, eventfd_t n) {
  Process* const p = caller();
  return p ? answer(p->write_counter(fd)) : __real_eventfd_write(fd, n);
}

int __real_eventfd_read(int, eventfd_t*);
int __wrap_eventfd_read(int fd, eventfd_t* n) {
  Process* const p = caller();
  if (!p) return __real_eventfd_read(fd, n);
  const auto count = p->read_counter(fd);
  if (!count) return answer(-EAGAIN);
  *n = *count;
  return 0;
}

int __real_epoll_create1(int);
int __wrap_epoll_create1(int flags) {
  Process* const p = caller();
  return p ? p->new_watch() : __real_epoll_create1(flags);
}

int __real_epoll_ctl(int, int, int, epoll_event*);
int __wrap_epoll_ctl(int fd, int operation, int watched, epoll_event* event) {
  Process* const p = caller();
  return p ? answer(p->change_watch(fd, operation, watched))
           : __real_epoll_ctl(fd, operation, watched, event);
}

int __real_socket(int, int, int);
int __wrap_socket(int family, int type, int protocol) {
  Process* const p = caller();
  return p ? p->new_socket() : __real_socket(family, type, protocol);
}

int __real_connect(int, const sockaddr*, socklen_t);
int __wrap_connect(int fd, const sockaddr* to, socklen_t size) {
  Process* const p = caller();
  return p ? answer(p->connect(fd)) : __real_connect(fd, to, size);
}

int __real_shutdown(int, int);
int __wrap_shutdown(int fd, int how) {
  Process* const p = caller();
  if (!p) return __real_shutdown(fd, how);
  p->shut(fd);
  return 0;
}

int __real_fcntl(int, int, ...);
int __wrap_fcntl(int fd, int command, long argument) {
  Process* const p = caller();
  if (!p) return __real_fcntl(fd, command, argument);
  const dlock::simulation::OpenPtr& file = p->opened(fd);
  if (file && command == F_DUPFD_CLOEXEC) return p->add_open(file);
  if (file && command == F_OFD_SETLK)
    return answer(p->files().turn(*file, reinterpret_cast<const struct flock*>(argument)->l_type));
  return 0;
}

int __real_getsockopt(int, int, int, void*, socklen_t*);
int __wrap_getsockopt(int fd, int level, int option, void* value, socklen_t* size) {
  Process* const p = caller();
  if (!p) return __real_getsockopt(fd, level, option, value, size);
  *static_cast<int*>(value) = p->socket_error(fd);
  return 0;
}

// Abstract names alone are bound, of a session that one process at a time resumes: here each
// session is of one process.
int __real_bind(int, const sockaddr*, socklen_t);
int __wrap_bind(int fd, const sockaddr* name, socklen_t size) {
  return caller() ? 0 : __real_bind(fd, name, size);
}

int __real_setsockopt(int, int, int, const void*, socklen_t);
int __wrap_setsockopt(int fd, int level, int option, const void* value, socklen_t size) {
  return caller() ? 0 : __real_setsockopt(fd, level, option, value, size);
}

ssize_t __real_send(int, const void*, std::size_t, int);
ssize_t __wrap_send(int fd, const void* bytes, std::size_t size, int flags) {
  Process* const p = caller();
  return p ? answer(p->send(fd, bytes, size)) : __real_send(fd, bytes, size, flags);
}

ssize_t __real_recv(int, void*, std::size_t, int);
ssize_t __wrap_recv(int fd, void* to, std::size_t size, int flags) {
  Process* const p = caller();
  return p ? answer(p->receive(fd, to, size)) : __real_recv(fd, to, size, flags);
}

int __real_close(int);
int __wrap_close(int fd) {
  if (fd < Process::first_fd) return __real_close(fd);
  if (Process* const p = caller()) p->close(fd);
  return 0;
}

// std::thread::_M_start_thread and detach(): the thread of the Keeper.
using State = std::unique_ptr<std::thread::_State>;
void __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread*, State*, void (*)());
void __wrap__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* self, State* state, void (*depend)()) {
  Process* const p = caller();
  if (!p)
    return __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
        self, state, depend);
  p->start_thread(
      [work = std::shared_ptr<std::thread::_State>(std::move(*state))] { work->_M_run(); });
}

void __real__ZNSt6thread6detachEv(std::thread*);
void __wrap__ZNSt6thread6detachEv(std::thread* self) {
  if (!caller()) __real__ZNSt6thread6detachEv(self);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
