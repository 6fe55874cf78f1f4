// SPDX-License-Identifier: Apache-2.0
#include "simulation/process.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace dlock::simulation {

using Kind = Fault::Kind;

namespace {

// A clock that a dead process sees, so that whatever it still waits for is over.
constexpr Nanos drained_step = second;
constexpr std::uint64_t most_calls_at_once = 20'000, calls_per_moment = 50;
constexpr Nanos moment = 1000;
constexpr std::uint64_t most_file_calls =
    200'000;  // of a process, which usually makes some hundred

}  // namespace

Process::Process(World& world, Network& network, Machine& machine, std::string name,
                 std::uint64_t seed)
    : world_(world),
      network_(network),
      machine_(machine),
      name_(std::move(name)),
      dice_(seed),
      past_(seed),
      others_run_one_in_(std::uint64_t{2} << dice_.below(6)) {
  world_.processes.push_back(this);
}

Process::~Process() { std::erase(world_.processes, this); }

// ---- the threads -------------------------------------------------------------------------------

void Process::changed() {
  if (dead_ || due_) return;
  due_ = true;
  const Nanos until_scheduled =
      world_.uniform ? 10'000 : static_cast<Nanos>(world_.dice.below(200'000));
  world_.after(until_scheduled, mixed(10, past_), [this] {
    due_ = false;
    go();
  });
}

void Process::go() {
  if (dead_ || halted()) return;
  const bool thread =
      in_ == In::poll && thread_ && !thread_->over() &&
      (look(polled_, polled_size_) > 0 || (poll_until_ && world_.now() >= *poll_until_));
  if (!thread && !wants_turn()) return;
  if (const Fault fault = world_.ask(Point::step); fault.kind != Kind::none) {
    suffer(fault);
    if (dead_ || halted()) return;
  }
  world_.active = this;
  if (wants_turn()) turn();
  if (thread && !dead_) run_thread();
  world_.active = nullptr;
  // the one may have news for the other
  if (!dead_ && (wants_turn() || (in_ == In::poll && look(polled_, polled_size_) > 0))) changed();
}

void Process::run_thread() {
  if (!thread_ || thread_->over()) return;
  Process* const before = std::exchange(world_.active, this);
  running_ = true;
  thread_->resume();
  running_ = false;
  world_.active = before;
}

void Process::start_thread(std::function<void()> work) {
  thread_ = std::make_unique<Fiber>(world_.stacks, [this, work = std::move(work)] {
    in_ = In::nothing;
    work();
  });
  in_ = In::start;
  world_.after(0, mixed(11, past_), [this] {
    if (in_ == In::start && !dead_ && !halted()) run_thread();  // halted: continues() will
  });
}

void Process::die() {
  if (std::exchange(dead_, true)) return;
  for (auto& [fd, d] : descriptors_)
    if (d.link && d.link->client) network_.close(d.link);
  for (auto& [fd, d] : descriptors_) d.open.reset();
  has_died();
  Process* const before = std::exchange(world_.active, this);
  leave_threads();
  world_.active = before;
  // In the thread itself: it goes on to its end, with system calls that have no effect.
  if (!running_) run_thread();
}

void Process::suffer(const Fault& fault) {
  if (world_.told()) world_.say(name_, text(fault));
  switch (fault.kind) {
    case Kind::kill: return die();
    case Kind::stop:
      stopped_until_ = world_.now() + fault.span;
      world_.at(stopped_until_, mixed(12, past_), [this] { continues(); });
      return;
    case Kind::full:
    case Kind::remove: return world_.disk_fails(fault);
    case Kind::sleep: {
      machine_.asleep = true;
      machine_sleeps();
      world_.after(fault.span, mixed(13, past_), [this, span = fault.span] {
        machine_.asleep = false;
        machine_.slept += span;
        world_.say(name_, "the machine is awake again");
        machine_woke();
        woke(span);
      });
      return;
    }
    default: return;
  }
}

// A timeout of poll(2) stands still while the machine sleeps.
void Process::woke(Nanos slept) {
  if (in_ == In::poll && poll_until_) {
    *poll_until_ += slept;
    world_.at(*poll_until_, mixed(14, past_), [this, wait = wait_] {
      if (wait == wait_) go();
    });
  }
  continues();
}

void Process::continues() {
  if (dead_ || halted()) return;
  if (in_ == In::step || in_ == In::start) run_thread();
  changed();
}

bool Process::step() {
  if (dead_) return false;
  if (!running_) return true;  // the main thread: asked in go()
  remember(1);
  if (const Fault fault = world_.ask(Point::step); fault.kind != Kind::none) suffer(fault);
  return waits_in_step();
}

// Until nothing keeps it from its next step. False: it is dead.
bool Process::waits_in_step() {
  while (!dead_ && (halted() || world_.now() < others_run_until_)) {
    in_ = In::step;
    thread_->pause();
    in_ = In::nothing;
  }
  return !dead_;
}

void Process::others_run() {
  if (dead_ || !running_) return;
  others_run_until_ = world_.now() + dice_.span(millisecond / 1000, millisecond);
  world_.at(others_run_until_, mixed(16, past_), [this] {
    if (in_ == In::step && !dead_ && !halted()) run_thread();
  });
  (void)waits_in_step();
}

bool Process::enters_kernel() {
  if (!step()) return false;
  if (++file_calls_ > most_file_calls) {
    world_.broken(name_ + " spins: it calls on and on, and never gets anywhere");
    if (running_) die();
  }
  if (dice_.one_in(others_run_one_in_)) others_run();
  return !dead_;
}

bool Process::rings(int fd) const noexcept {
  const auto found = descriptors_.find(fd);
  return found != descriptors_.end() && found->second.count > 0;
}

void Process::look_at(Nanos when) {
  world_.at(when, mixed(15, past_), [this] { go(); });
}

// ---- clocks and numbers ------------------------------------------------------------------------

void Process::time(clockid_t which, timespec* to) {
  Nanos t = clock();
  if (dead_) t += drained_ += drained_step;
  if (which == CLOCK_REALTIME) t += 1'700'000'000 * second;
  *to = {t / second, t % second};
  remember(static_cast<std::uint64_t>(t));
}

void Process::random(void* to, std::size_t size) {
  auto* bytes = static_cast<unsigned char*>(to);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(dice_.any());
}

// ---- descriptors -------------------------------------------------------------------------------

Process::Descriptor* Process::find(int fd) noexcept {
  const auto found = descriptors_.find(fd);
  return found == descriptors_.end() ? nullptr : &found->second;
}

int Process::add(Descriptor d) {
  descriptors_.emplace(next_fd_, std::move(d));
  return next_fd_++;
}

int Process::new_counter() { return add({Descriptor::Kind::counter}); }
int Process::new_watch() { return add({Descriptor::Kind::watch}); }
int Process::new_socket() { return add({Descriptor::Kind::socket}); }

int Process::add_open(OpenPtr open) {
  return add({Descriptor::Kind::file, 0, {}, {}, std::move(open)});
}

const OpenPtr& Process::opened(int fd) noexcept {
  static const OpenPtr none;
  const Descriptor* const d = find(fd);
  return d ? d->open : none;
}

void Process::stirred(const Node& node) {
  if (dead_ || in_ != In::poll) return;
  for (nfds_t i = 0; i < polled_size_; ++i)
    if (const OpenPtr& open = opened(polled_[i].fd); open && open->node.get() == &node)
      return changed();
}

int Process::write_counter(int fd) {
  Descriptor* const d = find(fd);
  if (!d) return -EBADF;
  ++d->count;
  if (!dead_) changed();
  return 0;
}

std::optional<std::uint64_t> Process::read_counter(int fd) {
  Descriptor* const d = find(fd);
  if (!d || d->count == 0) return std::nullopt;
  return std::exchange(d->count, 0);
}

int Process::change_watch(int fd, int operation, int watched) {
  Descriptor* const d = find(fd);
  if (!d) return -EBADF;
  if (operation == EPOLL_CTL_DEL) std::erase(d->watched, watched);
  else d->watched.push_back(watched);
  return 0;
}

int Process::connect(int fd) {
  if (!step()) return -ECONNREFUSED;
  find(fd)->link = network_.dial(*this);
  return -EINPROGRESS;
}

void Process::shut(int fd) {
  Descriptor* const d = find(fd);
  if (!d || !d->link || !d->link->client) return;
  d->link->state = Link::State::ended;
  network_.close(d->link);
}

int Process::socket_error(int fd) {
  if (dead_) return ECONNRESET;
  const Descriptor* const d = find(fd);
  if (!d || !d->link) return EBADF;
  if (d->link->state == Link::State::refused) return ECONNREFUSED;
  return d->link->state == Link::State::reset ? ECONNRESET : 0;
}

long Process::send(int fd, const void* bytes, std::size_t size) {
  if (!step()) return -EPIPE;
  const Descriptor* const d = find(fd);
  if (!d || !d->link) return -EBADF;
  if (d->link->state != Link::State::open) return -EPIPE;
  network_.send(d->link, {static_cast<const char*>(bytes), size});
  return static_cast<long>(size);
}

long Process::receive(int fd, void* to, std::size_t size) {
  if (dead_) return -ECONNRESET;
  const Descriptor* const d = find(fd);
  if (!d || !d->link) return -EBADF;
  Link& link = *d->link;
  if (!link.inbox.empty()) {
    const std::size_t n = std::min(size, link.inbox.size());
    std::memcpy(to, link.inbox.data(), n);
    remember(hash_of(link.inbox.substr(0, n)));
    link.inbox.erase(0, n);
    return static_cast<long>(n);
  }
  if (link.state == Link::State::ended) return 0;
  return link.state == Link::State::open ? -EAGAIN : -ECONNRESET;
}

void Process::close(int fd) {
  const auto found = descriptors_.find(fd);
  if (found == descriptors_.end()) return;
  for (auto& [other, d] : descriptors_) std::erase(d.watched, fd);
  if (found->second.link && found->second.link->client) network_.close(found->second.link);
  descriptors_.erase(found);
}

// ---- poll(2) -----------------------------------------------------------------------------------

short Process::events_of(const Descriptor& d, short wanted) const noexcept {
  using State = Link::State;
  switch (d.kind) {
    case Descriptor::Kind::counter:
      return d.count > 0 ? static_cast<short>(wanted & POLLIN) : short{0};
    case Descriptor::Kind::watch:
      for (const int fd : d.watched) {
        const auto found = descriptors_.find(fd);
        if (found != descriptors_.end() && events_of(found->second, POLLIN) != 0)
          return static_cast<short>(wanted & POLLIN);
      }
      return 0;
    case Descriptor::Kind::file: {
      const Node* const fifo = d.open ? d.open->node.get() : nullptr;
      if (!fifo) return POLLERR;
      const bool ended = !d.open->reads && fifo->readers == 0;
      return static_cast<short>((ended ? POLLERR : 0) |
                                (wanted & (d.open->reads && fifo->unread > 0 ? POLLIN : 0)));
    }
    case Descriptor::Kind::socket: break;
  }
  if (!d.link || d.link->state == State::dialling) return 0;
  if (d.link->state == State::refused || d.link->state == State::reset)
    return static_cast<short>(POLLERR | POLLHUP | (wanted & (POLLIN | POLLOUT)));
  const bool readable = !d.link->inbox.empty() || d.link->state == State::ended;
  return static_cast<short>(wanted & ((readable ? POLLIN : 0) | POLLOUT));
}

int Process::look(pollfd* fds, nfds_t size) noexcept {
  int ready = 0;
  for (nfds_t i = 0; i < size; ++i) {
    const Descriptor* const d = fds[i].fd < 0 ? nullptr : find(fds[i].fd);
    fds[i].revents = d ? events_of(*d, fds[i].events) : short{0};
    if (fds[i].revents != 0) ++ready;
  }
  return ready;
}

int Process::poll(pollfd* fds, nfds_t size, std::optional<Nanos> timeout) {
  if (calls_at_ != world_.now()) calls_at_ = world_.now(), calls_ = 0;
  if (++calls_ > most_calls_at_once && !dead_) {
    world_.broken(name_ + " spins: it never waits");
    if (running_) die();
    return 0;
  }
  if (dead_) return 0;
  // Time passes even for a loop that only looks.
  if (timeout && *timeout <= 0 && running_ && calls_ % calls_per_moment == 0) timeout = moment;
  if (const int ready = look(fds, size); ready > 0 || (timeout && *timeout <= 0) || !running_) {
    remember(static_cast<std::uint64_t>(ready));
    return ready;
  }
  // (In an exhaustive search only when it wakes: it has done nothing yet that others could see.)
  if (!world_.uniform && !step()) return 0;
  polled_ = fds;
  polled_size_ = size;
  in_ = In::poll;
  poll_until_.reset();
  const std::uint64_t wait = ++wait_;
  if (timeout) {
    poll_until_ = world_.now() + *timeout;
    world_.at(*poll_until_, mixed(14, past_), [this, wait] {
      if (wait == wait_) go();
    });
  }
  thread_->pause();
  in_ = In::nothing;
  ++wait_;
  const int ready = dead_ ? 0 : look(fds, size);
  remember(static_cast<std::uint64_t>(ready));
  return ready;
}

}  // namespace dlock::simulation
