// SPDX-License-Identifier: Apache-2.0
#include "common/lookup.hpp"
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>
#include "util/fd.hpp"
#include "util/thread.hpp"
#include "util/wait.hpp"

namespace dlock {

bool is_address(const std::string& host) noexcept {
  in6_addr any{};
  return ::inet_pton(AF_INET, host.c_str(), &any) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

// Owns the reply of getaddrinfo(3).
struct Found {
  int error = EAI_AGAIN;
  Addresses addresses;
};

namespace {

// The longest wait for a new answer, if older addresses are known.
constexpr Duration freshness = std::chrono::seconds{1};

Found resolve(const std::string& host, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  Found found{::getaddrinfo(host.c_str(), nullptr, &hints, &list), {}};
  for (const addrinfo* a = list; a; a = a->ai_next) {
    if (a->ai_addrlen > sizeof(sockaddr_storage)) continue;
    Address& to = found.addresses.emplace_back();
    std::memcpy(&to.bytes, a->ai_addr, a->ai_addrlen);
    to.size = a->ai_addrlen;
  }
  if (list) ::freeaddrinfo(list);
  if (found.error == 0 && found.addresses.empty()) found.error = EAI_NONAME;
  return found;
}

// Returns whether the name service failed, so that it is unknown whether the host exists.
bool unanswered(int error) noexcept {
  return error == EAI_AGAIN || error == EAI_SYSTEM || error == EAI_MEMORY;
}

}  // namespace

struct Lookup::Question {
  const Fd over{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};  // readable when the answer is there
  std::mutex mutex;
  std::optional<Found> found;
};

// Shared by the whole process. It is never destroyed: a thread may still hang in the name service
// when the process ends.
struct Lookup::Names {
  struct Name {
    std::shared_ptr<Question> under_way;
    Addresses former;  // the last successful answer
  };
  std::mutex mutex;
  std::map<std::string, Name> names;

  static Names& all() {
    static Names* const names = new Names;
    return *names;
  }
  Addresses former(const std::string& host) {
    const std::lock_guard lock(mutex);
    return names[host].former;
  }
  std::shared_ptr<Question> question(const std::string& host) {
    const std::lock_guard lock(mutex);
    auto& under_way = names[host].under_way;
    if (under_way) return under_way;
    auto query = std::make_shared<Question>();
    if (!query->over) return nullptr;
    try {
      thread_without_signals([host, query] {
        Found found = resolve(host, AI_ADDRCONFIG);
        all().answered(host, found);
        const std::lock_guard answer(query->mutex);
        query->found = std::move(found);
        ::eventfd_write(query->over.get(), 1);
      }).detach();  // nobody waits for the end of this thread
    } catch (const std::system_error&) { return nullptr; }
    return under_way = std::move(query);
  }
  void answered(const std::string& host, const Found& found) {
    const std::lock_guard lock(mutex);
    Name& name = names[host];
    name.under_way.reset();
    if (found.error == 0) name.former = found.addresses;
  }
};

std::string Address::text() const {
  char host[NI_MAXHOST] = "";
  ::getnameinfo(get(), size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

Lookup::Lookup(const std::string& host, std::uint16_t port, Deadline until)
    : host_(host), port_(port), until_(until), patience_(until) {
  if (Found literal = resolve(host, AI_NUMERICHOST); literal.error != EAI_NONAME) {
    if (literal.error == 0) known_ = with_port(literal.addresses);
    else
      known_ =
          fail(Errc::unavailable, "cannot find host {}: {}", host, ::gai_strerror(literal.error));
    return;
  }
  const Deadline now = Clock::now();
  if (!Names::all().former(host).empty())
    patience_ = std::min<Deadline>(later(now, freshness), now + (until - now) / 3);
  question_ = Names::all().question(host);
  if (!question_) patience_ = now;
}

Lookup::~Lookup() = default;

int Lookup::fd() const noexcept { return question_ && !known_ ? question_->over.get() : -1; }

Addresses Lookup::with_port(const Addresses& found) const {
  Addresses all = found;
  for (Address& a : all) {
    if (a.bytes.ss_family == AF_INET)
      reinterpret_cast<sockaddr_in*>(&a.bytes)->sin_port = htons(port_);
    else if (a.bytes.ss_family == AF_INET6)
      reinterpret_cast<sockaddr_in6*>(&a.bytes)->sin6_port = htons(port_);
  }
  return all;
}

std::optional<Result<Addresses>> Lookup::answer() {
  if (known_) return known_;
  std::optional<Found> found;
  if (question_) {
    const std::lock_guard lock(question_->mutex);
    found = question_->found;
  }
  if (found && found->error == 0) return known_ = with_port(found->addresses);
  if (!found && Clock::now() < patience_) return std::nullopt;
  const std::string why = !question_ ? "no thread for the name service"
                          : found    ? ::gai_strerror(found->error)
                                     : "no answer of the name service in time";
  if (!found || unanswered(found->error))
    if (const Addresses former = Names::all().former(host_); !former.empty())
      return known_ = with_port(former);
  return known_ = fail(Errc::unavailable, "cannot find host {}: {}", host_, why);
}

Result<Addresses> look_up(const std::string& host, std::uint16_t port, Deadline until) {
  Lookup lookup(host, port, until);
  for (;;) {
    if (auto answer = lookup.answer()) return std::move(*answer);
    pollfd over{lookup.fd(), POLLIN, 0};
    (void)wait_until({&over, 1}, lookup.patience());
  }
}

}  // namespace dlock
