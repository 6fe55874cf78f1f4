// SPDX-License-Identifier: Apache-2.0
// TCP connections between processes and the store. Bytes arrive in order or not at all; what a
// client sent before it closed a connection still arrives before the store sees the end.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>
#include "simulation/world.hpp"

namespace dlock::simulation {

class Process;

struct Link {
  enum class State { dialling, open, refused, ended, reset };
  unsigned number = 0;
  Process* client = nullptr;  // nullptr: it has closed its end
  State state = State::dialling;
  std::string inbox;                            // arrived, and not read yet
  bool up_silent = false, down_silent = false;  // what is sent in this direction is lost
  Nanos up_until = 0, down_until = 0;           // when the last message arrives
  // the store's end
  bool served = false;
  std::string unparsed;
  std::uint64_t waits_for_wake = 0;  // BLPOP; 0: does not
  std::string list;                  // that it waits for
  std::uint64_t hash() const noexcept;
};
using LinkPtr = std::shared_ptr<Link>;

class Network;

// The other end of all connections.
class Server {
 public:
  explicit Server(World& world) : world_(world) {}
  virtual ~Server() = default;
  void join(Network& network) noexcept { network_ = &network; }
  bool accepts() const noexcept { return up_; }
  void receive(const LinkPtr&, std::string_view bytes);
  virtual void closed(const LinkPtr&) = 0;
  virtual void restart() = 0;
  void freeze(Nanos span);  // what is received meanwhile is served at its end
  virtual void evict() {}
  virtual void fail_over(Nanos) {}  // to a state that is older by so much
  virtual bool empty() const = 0;   // nobody holds
  virtual std::uint64_t hash() const = 0;
  virtual bool undoes(std::string_view request) const = 0;          // ends a grant or a wait
  virtual std::string name_of(std::string_view request) const = 0;  // for the story

 protected:
  static constexpr Nanos down_time = 200 * millisecond;                  // of a restart
  static constexpr std::int64_t clock_at_start = 1'700'000'000'000'000;  // microseconds since 1970
  std::int64_t micros() const noexcept { return clock_at_start + world_.now() / 1000; }
  virtual void serve(const LinkPtr&) = 0;  // what is in `unparsed`
  void goes_down();                        // its process and all connections; up_ comes later

  World& world_;
  Network* network_ = nullptr;
  bool up_ = true;
  Nanos frozen_until_ = 0;

 private:
  std::vector<LinkPtr> unserved_;
};

class Network {
 public:
  Network(World& world, Server& store) : world_(world), store_(store) {}

  LinkPtr dial(Process& client);
  void send(const LinkPtr&, std::string bytes);   // by the client
  void reply(const LinkPtr&, std::string bytes);  // by the store
  void close(const LinkPtr&);                     // by the client
  void cut(const LinkPtr&);                       // both ends see it
  void cut_all();                                 // the store's process is gone
  std::uint64_t hash() const noexcept;

 private:
  void arrive(const LinkPtr&, const std::string& bytes, const Fault& fault);
  void end_for_client(const LinkPtr&, Link::State);
  void forget(const LinkPtr&);

  World& world_;
  Server& store_;
  std::vector<LinkPtr> links_;  // with an end that is open
  unsigned made_ = 0;
};

}  // namespace dlock::simulation
