// SPDX-License-Identifier: Apache-2.0
// The time of the next grant after a dead holder, or a dead first waiter.
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>
#include "prove.hpp"

namespace dlock::prove {
namespace {

// A child that takes the lock and holds it, or waits for it.
struct Child {
  pid_t pid;
  int out;
  template <class Body>
  explicit Child(Body body) {
    int fds[2];
    if (::pipe(fds) != 0) throw std::runtime_error("pipe");
    pid = ::fork();
    if (pid == 0) {
      body(fds[1]);
      for (;;) ::pause();
    }
    ::close(fds[1]);
    out = fds[0];
    char ready;
    if (::read(out, &ready, 1) != 1) throw std::runtime_error("the child does not begin");
  }
  ~Child() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    ::close(out);
  }
};

double wait_for_grant(Backend& b, const Key& k, const std::function<void()>& then) {
  auto w = *b.enqueue(request(k, 10s));
  (void)w->poll(50ms);
  then();
  const auto began = Clock::now();
  for (;;) {
    const auto p = w->poll(60s);
    if (p && std::holds_alternative<Granted>(*p)) {
      const double took = seconds(Clock::now() - began);
      release_or_fail(b, std::get<Granted>(*p).lease);
      return took;
    }
  }
}

}  // namespace

void gone(MariadbServer& server) {
  Database db{server};
  for (const auto& [what, how] : {std::pair{"killed", 0}, {"stopped", 1}, {"disconnected", 2}}) {
    const Key k = key(fmt::format("holder-{}", what));
    const auto granted_at = Clock::now();
    Child holder{[&](int out) {
      const auto b = open_mysql(db.url());
      acquire_or_fail(*b, request(k, 2s));
      (void)!::write(out, "!", 1);
      for (;;) ::pause();
    }};
    const auto b = open_mysql(db.url());
    wait_for_grant(*b, k, [&, how = how] {
      if (how == 0) ::kill(holder.pid, SIGKILL);
      if (how == 1) ::kill(holder.pid, SIGSTOP);
      if (how == 2) {
        const auto id = server.value(
            fmt::format("SELECT ID FROM information_schema.processlist WHERE DB='{}' AND "
                        "COMMAND='Sleep' AND ID<>"
                        "CONNECTION_ID() AND USER='root' AND INFO IS NULL ORDER BY ID DESC LIMIT 1",
                        db.name()));
        if (!id.empty()) server.sql("KILL " + id);
      }
    });
    const double total = seconds(Clock::now() - granted_at);
    fmt::print("holder {}, ttl 2 s: next grant {:.3f} s after the first request\n", what, total);
    must(total >= 1.95, "never before the lease ends");
    must(total < 2.6, "soon after");
  }
  std::vector<double> times, plain;
  for (int i = 0; i < 10; ++i) {
    const Key k = key(fmt::format("head-{}", i));
    const auto holder = open_mysql(db.url()), b = open_mysql(db.url());
    const Lease held = acquire_or_fail(*holder, request(k, 60s));
    Child head{[&](int out) {
      const auto mine = open_mysql(db.url());
      auto w = *mine->enqueue(request(k, 60s));
      (void)w->poll(0us);
      (void)!::write(out, "!", 1);
      for (;;) (void)w->poll(60s);
    }};
    times.push_back(wait_for_grant(*b, k, [&] {
      ::kill(head.pid, SIGKILL);
      ::waitpid(head.pid, nullptr, 0);
      release_or_fail(*holder, held);
    }));
    const Lease again = acquire_or_fail(*holder, request(k, 60s));
    plain.push_back(wait_for_grant(*b, k, [&] { release_or_fail(*holder, again); }));
  }
  fmt::print(
      "head waiter killed, then the lock released: next grant after p50 {:.1f} ms, max {:.1f} ms; "
      "without a dead head p50 {:.1f} "
      "ms\n",
      quantile(times, 0.5) * 1e3, quantile(times, 1.0) * 1e3, quantile(plain, 0.5) * 1e3);
}

}  // namespace dlock::prove
